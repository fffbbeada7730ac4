"""Engines: what turns features into tokens. Each satisfies `protocols.Engine`."""
