"""Checking an answer: run it again, ask where it comes from, and how far it can be trusted."""
