"""Interfaces of other libraries, implemented on whisperbatch, for programs written for them.

No other module of whisperbatch imports this package.
"""
