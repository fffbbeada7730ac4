"""Transcribe on a Ray cluster: `transcribe`. Needs the extra `ray`.

datasets     `transcribe`: from a plan, or a dataset with URIs, to a dataset with text
pools        how many actors there are, and what each needs
actors       what runs on the cluster: a loaded model, and the rows that it gets
rows         the columns of the result
"""

from whisperbatch.ray.datasets import transcribe

__all__ = ["transcribe"]
