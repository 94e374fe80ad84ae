"""The web process and the command line: everything a person or a program touches."""
