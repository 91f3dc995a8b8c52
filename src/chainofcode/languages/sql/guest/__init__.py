"""Runs SQL inside the guest: tables from files, an engine, and rounds of calls."""
