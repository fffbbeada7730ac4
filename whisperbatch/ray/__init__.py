"""Transcribe on a Ray cluster: `transcribe`. Needs the extra `ray`.

datasets     `transcribe`: from a plan, or a dataset with URIs, to a dataset with text
actors       what runs on the cluster: a loaded model makes rows of text from the rows that it gets
"""

from whisperbatch.ray.datasets import transcribe

__all__ = ["transcribe"]
