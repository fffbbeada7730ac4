"""Scheduling: which rows are decoded together, and when.

batches -> DecodingStage -> results in order
"""

from whisperbatch.scheduling.stage import DecodingStage

__all__ = ["DecodingStage"]
