"""One module per revision, oldest first; a released one is never changed."""
