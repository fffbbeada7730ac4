"""Spans of real speech, transcribed alone, give exactly the transcript of one run."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import whisperbatch as wb
from benchmarks import corpora, readers
from benchmarks.recordings import write
from whisperbatch.sections.joining import join_spans
from whisperbatch.types import SECTION, Span, SpanSource, to_samples

pytestmark = pytest.mark.slow

RECORDING = "mixed:en:700:3"  # speech with pauses, music, noise, a telephone; three sections


def transcribed(
    asr: wb.Transcriber, path: Path, bounds: Sequence[int], options: wb.Options
) -> wb.Transcript:
    spans = [*(Span(first, last) for first, last in pairwise((0, *bounds))), Span(bounds[-1])]
    sources = [SpanSource(path, span) for span in spans]
    return join_spans(list(asr.transcribe_many(sources[::-1], options=options))[::-1])


@pytest.mark.parametrize("suffix", [".wav", ".mp3"])
def test_the_joined_spans_equal_the_recording(
    base: wb.Transcriber, tmp_path: Path, suffix: str
) -> None:
    """WAV is read by seeking, MP3 from its start."""
    path = write(corpora.build(RECORDING), tmp_path / f"recording{suffix}")
    options = wb.Options(language="en", beam_size=1)
    whole = base.transcribe(path, options=options)
    assert len(whole.segments) > 100
    assert transcribed(base, path, (1, 2), options) == whole
    assert to_samples(whole.segments[-1].start) // SECTION == 2  # every section has speech


@pytest.mark.parametrize("suffix", [".wav", ".mp3"])
def test_reader_processes_change_nothing(base: wb.Transcriber, tmp_path: Path, suffix: str) -> None:
    """Two sections at a time, each with Silero's network in its own process; MP3 has a decoder."""
    path = write(corpora.build(RECORDING), tmp_path / f"recording{suffix}")
    options = wb.Options(beam_size=1, readers=1)
    expected = base.transcribe(path, options=options)
    other = replace(options, readers=2, reader_processes=True)
    for _ in range(2):  # with new processes, and with those that were kept
        assert base.transcribe(path, options=other) == expected
    assert len(base._processes._all) >= 2 + (suffix == ".mp3")


def test_several_readers_give_the_transcript_of_one(base: wb.Transcriber, tmp_path: Path) -> None:
    path = write(corpora.build(RECORDING), tmp_path / "recording.wav")
    one, several = (
        base.transcribe(path, language="en", beam_size=1, readers=count) for count in (1, 3)
    )
    assert len(one.segments) > 100
    assert several == one


def test_several_readers_read_every_source_as_one_does(tmp_path: Path) -> None:
    """With the real VAD, and texts that any other feature would change."""
    recording = corpora.build(RECORDING)
    path = write(recording, tmp_path / "recording.wav")
    with readers.open_model(None) as asr:
        compared = [
            *readers.compare_sources(asr, recording, path, readers=4),
            *readers.compare_options(asr, path, readers=3, sets=3),
        ]
    assert [line for line, same in compared if not same] == []
    assert len(compared) == 8
