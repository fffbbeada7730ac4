"""Inputs that FFmpeg cannot read itself: they become file objects that it can read."""
