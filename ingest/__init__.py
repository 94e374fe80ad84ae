"""Foreign trajectories become events: sniff, read, validate, append idempotently, report."""
