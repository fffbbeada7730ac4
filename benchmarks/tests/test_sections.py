import numpy as np
import pytest

import whisperbatch as wb
from benchmarks import section_errors, sections
from benchmarks.recordings import Recording
from whisperbatch.sections import chunk_recording
from whisperbatch.types import SECTION, WHOLE, Span


def test_divisions_cover_the_recording_with_every_first_span() -> None:
    found = list(sections.divisions(9 * SECTION + 5))
    assert [(length, first) for length, first, _ in found] == [
        (1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 3), (4, 4),
    ]  # fmt: skip
    assert found[4][2] == (Span(0, 2), Span(2, 6), Span(6))
    for _, _, spans in found:
        assert spans[0].first == 0
        assert [span.last for span in spans] == [*(span.first for span in spans[1:]), None]


def test_different_chunks_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    silence = Recording("silence", np.zeros(SECTION, np.int16), ())
    found = {Span(0): [b"a", b"b"], Span(0, 1): [b"a"], Span(1): [b"b"]}
    monkeypatch.setattr(sections, "chunks_of", lambda _, span=WHOLE: found[span])
    assert all(same for _, same in sections.compare_chunks(silence))
    found[Span(1)] = [b"c"]
    assert not all(same for _, same in sections.compare_chunks(silence))


def test_one_section_divides_nothing() -> None:
    samples = np.zeros(2 * SECTION, np.float32)
    options = wb.Options(vad=False)

    def found() -> set[int]:
        blocks = (samples[start : start + 160_000] for start in range(0, len(samples), 160_000))
        return {chunk.section for chunk in chunk_recording(blocks, options)}

    assert found() == {0, 1}
    with section_errors.one_section(len(samples)):
        assert found() == {0}
    assert found() == {0, 1}
