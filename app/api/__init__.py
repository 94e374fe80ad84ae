"""The HTTP API under /v1, for programs; pages do not use it and it does not know them."""
