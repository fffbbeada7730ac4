"""Segmentation: decoded text becomes the segments of the transcript."""

from whisperbatch.segmentation.stage import Segmentation
from whisperbatch.segmentation.timed_text import RowResult

__all__ = ["RowResult", "Segmentation"]
