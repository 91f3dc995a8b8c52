"""Shared by the guests of all languages: the process, the wire, requests, files."""
