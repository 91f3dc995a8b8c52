"""SQL: queries with functions that the database does not have."""
