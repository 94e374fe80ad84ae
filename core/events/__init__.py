"""The event families, their envelope and their one closed registry."""
