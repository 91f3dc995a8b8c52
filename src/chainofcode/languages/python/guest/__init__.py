"""Runs inside the sandbox. Standard library only; the guest loads these files without this package's `__init__`."""
