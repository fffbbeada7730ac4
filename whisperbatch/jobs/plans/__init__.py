"""A plan as a file: what to transcribe, divided into tasks; and transcripts from their results."""
