import numpy as np

from tests.unit.fakes import multilingual_tokenizer
from whisperbatch.chunking.split import shift
from whisperbatch.decoding.prompts import WhisperTokenizer, segment_by_timestamps
from whisperbatch.types import Chunk, SpeechSpan, to_samples

VOCABULARY = WhisperTokenizer(multilingual_tokenizer(), multilingual=True)
FIRST_TIMESTAMP = VOCABULARY.no_timestamps + 1  # 0.00


def chunk(length: float = 10.0, start: float = 0.0) -> Chunk:
    span = SpeechSpan(to_samples(start), to_samples(start + length))
    return Chunk(0, 0, (span,), (span,), np.zeros(span.length, np.float32))


def tokens(*parts: float | str) -> list[int]:
    """Return timestamp tokens for numbers (seconds) and text tokens for texts."""
    token_ids: list[int] = []
    for part in parts:
        if isinstance(part, str):
            token_ids += VOCABULARY._tokenizer.encode(part, add_special_tokens=False).ids
        else:
            token_ids.append(FIRST_TIMESTAMP + round(part / 0.02))
    return token_ids


def timed(token_ids: list[int], decoded: Chunk) -> list[tuple[str, float, float]]:
    segments = segment_by_timestamps(token_ids, decoded, VOCABULARY)
    return [(text.text, text.start / 16000, text.end / 16000) for text, _ in segments]


def test_timestamp_tokens_delimit_segments() -> None:
    token_ids = tokens(0.0, " One.", 1.5, 2.0, " Two.", 3.02)
    assert timed(token_ids, chunk(start=100)) == [("One.", 100, 101.5), ("Two.", 102, 103.02)]
    assert [part for _, part in segment_by_timestamps(token_ids, chunk(), VOCABULARY)] == [
        tokens(" One."),
        tokens(" Two."),
    ]


def test_text_without_end_timestamp_ends_with_the_chunk() -> None:
    assert timed(tokens(1.0, " One.", 2.0, 3.0, " Two"), chunk()) == [
        ("One.", 1, 2),
        ("Two", 3, 10),
    ]
    assert timed(tokens(" One"), chunk(start=5)) == [("One", 5, 15)]


def test_times_after_the_chunk_become_its_end() -> None:
    assert timed(tokens(9.0, " One.", 12.0), chunk()) == [("One.", 9, 10)]


def test_times_in_added_silence_become_the_ends_of_the_speech() -> None:
    shifted = shift(chunk(start=100), to_samples(0.5))
    assert shifted.start == to_samples(99.5)
    token_ids = tokens(0.1, " One.", 1.5, 2.0, " Two.", 10.9)
    assert timed(token_ids, shifted) == [("One.", 100, 101), ("Two.", 101.5, 110)]
    assert timed(tokens(0.1, " One.", 0.3), shifted) == [("One.", 100, 100)]


def test_an_end_before_its_start_becomes_the_start() -> None:
    assert timed(tokens(4.0, " One.", 2.0), chunk()) == [("One.", 4, 4)]


def test_timestamps_without_text_make_no_segments() -> None:
    assert timed(tokens(0.0, 1.0, 1.0, 30.0), chunk()) == []
    assert timed([], chunk()) == []


def test_timestamps_after_a_shortened_pause() -> None:
    pieces = (SpeechSpan(0, 32_000), SpeechSpan(160_000, 192_000))
    cut = Chunk(0, 0, pieces, pieces, np.zeros(64_000, np.float32))
    assert timed(tokens(0.0, " One.", 1.0, 3.0, " Two.", 4.0), cut) == [
        ("One.", 0, 1),
        ("Two.", 11, 12),
    ]
