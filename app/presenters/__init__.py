"""Presenters: pure functions from records and events to what a template shows."""
