"""Python programs: the compiler prepares them, the guest runs them on CPython."""
