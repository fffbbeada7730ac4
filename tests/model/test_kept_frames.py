"""Merged frames: as few errors, the same word times, whatever else is in the batch."""

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import pytest

import whisperbatch as wb
from benchmarks import recordings, scoring
from benchmarks.recordings import Recording
from whisperbatch.models import find_model, measured_kept_frames

ROWS = wb.Options(language="en", beam_size=1, chunk_length=8.0, word_timestamps=True)


def load(model: str, **settings: Any) -> wb.Transcriber:
    return wb.load(model, device="cpu", engine=wb.OpenVinoSettings(**settings))


@pytest.fixture(scope="module")
def spoken() -> Recording:
    return recordings.prompts("en", duration=90, seed=5)


@pytest.fixture(scope="module")
def half() -> Iterator[wb.Transcriber]:
    with load("base", kept_frames=0.5) as asr:
        yield asr


@pytest.fixture(scope="module")
def whole() -> Iterator[wb.Transcriber]:
    with load("base", kept_frames=1.0) as asr:
        yield asr


@pytest.fixture(scope="module")
def greedy(
    half: wb.Transcriber, whole: wb.Transcriber, spoken: Recording
) -> tuple[wb.Transcript, wb.Transcript]:
    """The transcripts with half of the frames and with all, without beams."""
    options = wb.Options(language="en", beam_size=1, word_timestamps=True)
    one, other = (asr.transcribe(spoken.samples, options=options) for asr in (half, whole))
    return one, other


def words_of(transcript: wb.Transcript) -> list[wb.Word]:
    return [word for segment in transcript.segments for word in segment.words or ()]


@pytest.mark.parametrize("name", ["base", "tiny.en"])
def test_models_that_were_measured_keep_fewer_frames(name: str) -> None:
    assert measured_kept_frames(find_model(name)) == 0.7
    with load(name) as default, load(name, kept_frames=0.7) as merging:
        assert default.engine.fingerprint == merging.engine.fingerprint
        assert "0.7 of the frames" in default.engine.fingerprint


def check_errors(spoken: Recording, *transcripts: wb.Transcript) -> None:
    """Check the transcripts of the default, half of the frames, and all frames."""
    errors = [scoring.word_error_rate(spoken.text, found.text).rate for found in transcripts]
    assert max(errors) <= 0.06
    assert errors[0] <= errors[2] + 0.01
    assert errors[1] <= errors[2] + 0.015


@pytest.mark.slow
def test_merged_frames_make_as_few_errors_as_all(
    greedy: tuple[wb.Transcript, wb.Transcript], spoken: Recording
) -> None:
    with load("base") as default:
        found = default.transcribe(spoken.samples, language="en", beam_size=1)
    check_errors(spoken, found, *greedy)


@pytest.mark.slow
def test_merged_frames_make_as_few_errors_as_all_with_beams(
    half: wb.Transcriber, whole: wb.Transcriber, spoken: Recording
) -> None:
    with load("base") as default:
        found = [
            asr.transcribe(spoken.samples, language="en", beam_size=5)
            for asr in (default, half, whole)
        ]
    check_errors(spoken, *found)


@pytest.mark.slow
def test_word_times_are_within_a_tenth_of_a_second(
    greedy: tuple[wb.Transcript, wb.Transcript],
) -> None:
    words, expected = map(words_of, greedy)
    matcher = SequenceMatcher(
        None, [word.word for word in words], [word.word for word in expected], autojunk=False
    )
    pairs = [
        (words[block.a + n], expected[block.b + n])
        for block in matcher.get_matching_blocks()
        for n in range(block.size)
    ]
    # Only words that both texts have are compared; on a Zen 4, these are 153 of 167.
    assert len(pairs) >= 0.85 * len(expected) > 100
    starts = np.array([abs(word.start - other.start) for word, other in pairs])
    ends = np.array([abs(word.end - other.end) for word, other in pairs])
    for distances in (starts, ends):
        assert np.median(distances) <= 0.02
        assert np.mean(distances <= 0.1) >= 0.97


@pytest.mark.slow
def test_the_text_does_not_depend_on_the_batch_or_the_workers(
    half: wb.Transcriber, spoken: Recording
) -> None:
    sources = [spoken.samples[: 30 * 16000], spoken.samples[20 * 16000 : 50 * 16000]]
    expected = [half.transcribe(source, options=ROWS, batch_size=1) for source in sources]
    assert min(transcript.chunks for transcript in expected) > 3
    with load("base", kept_frames=0.5, inter_threads=2) as two_workers:
        for asr, batch_size in ((half, 16), (two_workers, 3)):
            found = asr.transcribe_many(sources[::-1], options=ROWS, batch_size=batch_size)
            assert [repr(transcript) for transcript in found] == list(map(repr, expected[::-1]))
