"""Peers, each run by the Python of an environment of its own; never a dependency of the product."""
