"""Limits of values that users give and that files contain.

This file imports nothing large: `import whisperbatch` and its settings need no NumPy.
"""

from typing import Final

MAX_DURATION: Final = 1e9  # seconds: 30 years, longer than every recording
