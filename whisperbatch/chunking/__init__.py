"""Chunking: from speech probabilities to chunks of at most 30 s."""
