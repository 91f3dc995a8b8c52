"""The inside of this guest."""
