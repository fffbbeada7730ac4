"""Known speakers: the names of speakers, by recordings of their voices.

references.py    reads the recordings of `known_speakers`, once for a run
matching.py      which speaker of a recording has which name
voices.py        the voice of a recording, and whether two voices are the same (built-in diarizer)
directions.py    what changes in an embedding with the sound, not with the voice
"""
