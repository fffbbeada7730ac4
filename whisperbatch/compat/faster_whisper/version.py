"""The version of faster-whisper whose interface this package implements."""

__version__ = "1.2.1"
