"""Chunking: speech probabilities become speech spans, and speech spans become chunks.

    VAD -> SpeechFrames -> spans.SpanFinder -> SpeechSpan -> merge.chunks -> Chunk (at most 30 s)

`split` makes smaller or shifted chunks from a chunk, for a retry or where the language changes.
"""
