"""Goals of the product, each measured beside its probe and its peer; see README.md."""
