"""Whisper on PyTorch: the extra `torch`."""
