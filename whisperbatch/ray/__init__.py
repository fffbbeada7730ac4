"""Transcribe on a Ray cluster: `transcribe`. Needs the extra `ray`.

datasets     `transcribe`: from a plan, or a dataset with URIs, to a dataset with text; the pool of
             actors
actors       what runs on the cluster: a loaded model, and the rows that it gets; the columns of the
             result
"""

from whisperbatch.ray.datasets import transcribe

__all__ = ["transcribe"]
