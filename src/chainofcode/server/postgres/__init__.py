"""The store of several servers: rows in PostgreSQL, uploads, artifacts and long traces in object storage."""
