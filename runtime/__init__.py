"""Orchestration: each verb reads, lets the core decide, commits through the store's ports."""
