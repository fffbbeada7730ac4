"""whisperbatch."""
