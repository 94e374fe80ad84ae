"""Durable storage behind ports. Knows the core; nothing above it."""
