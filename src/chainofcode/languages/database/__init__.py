"""The guest that inspects and queries a database for the host. It runs no program."""
