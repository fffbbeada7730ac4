"""Segments of real speech: sentences, phrases and chunks."""

from itertools import pairwise
from typing import Any, Final

import pytest

import whisperbatch as wb
from benchmarks import segments as benchmark
from benchmarks.recordings import Recording
from whisperbatch.options.options import Segments
from whisperbatch.text.sentences import ends_sentence

KINDS: Final[tuple[Segments, ...]] = ("sentence", "phrase", "chunk")


@pytest.fixture(scope="module")
def read() -> Recording:
    """A novel, read slowly: pauses within sentences are longer than 0.4 s."""
    return benchmark.slowed(benchmark.build("read", 25, 0), 0.8)


@pytest.fixture(scope="module")
def transcripts(base: wb.Transcriber, read: Recording) -> dict[str, wb.Transcript]:
    options: Any = {"language": "en", "beam_size": 1, "word_timestamps": True, "chunk_length": 6.0}
    return {kind: base.transcribe(read.samples, **options, segments=kind) for kind in KINDS}


def words(transcript: wb.Transcript) -> list[tuple[str, float, float]]:
    return [
        (word.word.strip(), word.start, word.end)
        for segment in transcript.segments
        for word in segment.words or ()
    ]


def test_all_kinds_of_segments_have_the_same_words(transcripts: dict[str, wb.Transcript]) -> None:
    sentences, phrases, chunks = (words(transcripts[kind]) for kind in KINDS)
    assert sentences == phrases == chunks
    assert transcripts["sentence"].text == transcripts["phrase"].text
    for transcript in transcripts.values():
        assert [segment.id for segment in transcript.segments] == list(
            range(len(transcript.segments))
        )
        for segment in transcript.segments:
            assert segment.words
            assert (segment.start, segment.end) == (segment.words[0].start, segment.words[-1].end)
            assert segment.text == "".join(word.word for word in segment.words).strip()


def test_a_chunk_is_one_segment(transcripts: dict[str, wb.Transcript]) -> None:
    transcript = transcripts["chunk"]
    assert len(transcript.segments) == transcript.chunks


def test_a_sentence_goes_on_in_the_next_chunk(transcripts: dict[str, wb.Transcript]) -> None:
    """Chunks of 6 s end within sentences."""
    ends = [segment.end for segment in transcripts["chunk"].segments[:-1]]
    joined = [
        segment
        for segment in transcripts["sentence"].segments
        if any(segment.start < end < segment.end for end in ends)
    ]
    assert joined
    assert all(segment.end - segment.start <= 30 for segment in transcripts["sentence"].segments)


def test_segments_end_with_sentences(transcripts: dict[str, wb.Transcript]) -> None:
    segments = transcripts["sentence"].segments
    unfinished = [
        segment.text
        for segment, following in pairwise(segments)
        if not ends_sentence(segment.text) and following.start - segment.end < 2
    ]
    assert len(unfinished) <= 0.1 * len(segments), unfinished


@pytest.mark.slow
@pytest.mark.parametrize("name", ["en", "fr", "read"])
def test_nine_of_ten_segments_end_with_a_sentence_of_the_truth(
    base: wb.Transcriber, name: str
) -> None:
    recording = benchmark.build(name, 160, 1)  # 80 s of reading have only 14 sentences
    language = "en" if name == "read" else name
    segments = base.transcribe(recording.samples, language=language).segments
    result = benchmark.compare(recording, segments, language)
    assert result.segments >= 10
    assert result.correct >= 0.9 * result.segments
    assert result.found >= 0.8 * result.sentences


@pytest.mark.slow
def test_sentences_in_the_words_of_timestamp_tokens(base: wb.Transcriber, read: Recording) -> None:
    options: Any = {"language": "en", "beam_size": 1, "timestamps": "tokens"}
    sentences, phrases = (
        base.transcribe(read.samples, segments=kind, **options) for kind in ("sentence", "phrase")
    )
    assert sentences.text.split() == phrases.text.split()
    assert len(sentences.segments) <= len(phrases.segments)
    assert all(ends_sentence(segment.text) for segment in sentences.segments[:-1])
