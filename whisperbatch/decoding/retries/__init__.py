"""Retries: rows that fail their audit are decoded again."""

from whisperbatch.decoding.retries.rounds import Retry

__all__ = ["Retry"]
