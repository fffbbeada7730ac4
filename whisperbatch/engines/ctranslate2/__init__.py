"""Whisper on CTranslate2, for CPU and CUDA."""
