"""Decoding: from features to segments, with prompts, aligned words, audits and retries."""
