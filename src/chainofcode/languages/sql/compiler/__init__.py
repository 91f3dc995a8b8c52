"""Reads SQL: tokens, clauses, undefined functions and their types, and the query as an engine runs it."""
