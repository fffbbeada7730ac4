"""Other libraries' interfaces on whisperbatch, for programs that were written for them.

Nothing of whisperbatch imports them.
"""
