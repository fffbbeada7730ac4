"""A second opinion on the audio that the voice activity detector (VAD) rejects.

Silero rejects whole sentences of hoarse, faint, slow or distant speech that Whisper transcribes
correctly. Here the model decides about such audio, before the chunks are formed.
"""

from whisperbatch.second_opinion.stage import SecondOpinion, second_opinions

__all__ = ["SecondOpinion", "second_opinions"]
