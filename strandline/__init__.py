"""Strandline: inspect agent trajectories at any log boundary."""
