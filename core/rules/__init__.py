"""Decisions over the record: pure, and without acting on them."""
