"""JavaScript programs: acorn parses them, the compiler adds holes and probes, QuickJS-ng runs them in the guest."""
