"""JavaScript programs: acorn parses them, our compiler adds holes and probes, QuickJS-ng runs them in the guest."""
