"""The recordings of `known_speakers`: checked before a run, and read once for the run."""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Final

import numpy as np

from whisperbatch.audio.reader import AudioReader, open_audio
from whisperbatch.diarization.protocol import Embedding, VoiceDiarizer
from whisperbatch.errors import AudioError, OptionError, of_recording
from whisperbatch.options import KnownSpeakers, Options
from whisperbatch.text.messages import shown
from whisperbatch.types import SAMPLING_RATE, Samples, Source

MAX_REFERENCE: Final = 600.0  # seconds; half a minute is enough


def check_references(options: Options) -> None:
    """Open the recordings of known speakers that are files, and close them.

    Raises:
        AudioError: a recording cannot be read; the message names the speaker.
    """
    for name, source in (options.known_speakers or {}).items():
        if isinstance(source, str | PathLike) and source != "-":
            with _opened(name, source):
                pass


def read_references(known_speakers: KnownSpeakers, diarizer: VoiceDiarizer) -> dict[str, Embedding]:
    """Read the recordings of known speakers, and return the embedding of each voice.

    Args:
        known_speakers: names and recordings.
        diarizer: computes the embeddings.

    Raises:
        AudioError: a recording cannot be read, has less than 1 s of speech, or has several voices.
            The message names the speaker and the recording.
        EngineError: a network failed.
    """
    voices: dict[str, Embedding] = {}
    for name, source in known_speakers.items():
        with _opened(name, source) as reader:
            voices[name] = diarizer.voice(_samples(reader))
    return voices


def _samples(reader: AudioReader) -> Samples:
    blocks = [np.zeros(0, np.float32)]
    for block in reader.blocks():
        blocks.append(block)
        if reader.position > MAX_REFERENCE * SAMPLING_RATE:
            raise AudioError(f"is longer than {MAX_REFERENCE:g} s; give 5 to 30 s of this voice")
    return np.concatenate(blocks)


@contextmanager
def _opened(name: str, source: Source) -> Iterator[AudioReader]:
    """Open the recording of a speaker; errors of the `with` block name both."""
    try:
        with open_audio(source, Options()) as reader:
            try:
                yield reader
            except AudioError as error:
                raise of_recording(error, reader.name)  # noqa: B904 - the same error
    except (AudioError, OptionError) as error:
        named = AudioError(f"known_speakers[{shown(name)}]: {error}")
        raise named from error
