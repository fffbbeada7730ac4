"""Whisper on CTranslate2."""
