"""Run a recorded trace again, with or without changes, and compare it with the record."""
