"""Whisper on PyTorch. Needs the extra `torch`."""
