"""Alembic environment of the log: the only way its schema comes to be."""
