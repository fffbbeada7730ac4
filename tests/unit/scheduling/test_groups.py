"""Failed rows of several batches are retried together; no row waits long, and none is lost."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.decoding.batch_decoder import FailedRow
from whisperbatch.errors import EngineError
from whisperbatch.recording import RecordingState
from whisperbatch.rows import FLUSH, End, Flush
from whisperbatch.scheduling.groups import Decoded, before_lost_rows, is_failed, retry_batches
from whisperbatch.segmentation.timed_text import RowResult

RECORDING = RecordingState(0)
BATCH_SIZE = 4


def result(name: str) -> RowResult:
    return cast("RowResult", SimpleNamespace(name=name))


def items(batch: str) -> list[Decoded | Flush]:
    """A lower case letter is a row that passed, an upper case letter a row that failed."""
    decoded: list[Decoded | Flush] = []
    for letter in batch:
        if letter == "!":
            decoded.append(FLUSH)
        elif letter.isupper():
            row = cast("Any", SimpleNamespace(name=letter))
            decoded.append((RECORDING, FailedRow(row, cast("Any", None))))
        else:
            decoded.append((RECORDING, result(letter)))
    return decoded


def letters(group: Sequence[Decoded]) -> str:
    names = []
    for item in group:
        assert not isinstance(item, End)
        named = item[1].decoded if isinstance(item[1], FailedRow) else item[1]
        names.append(cast("Any", named).name)
    return "".join(names)


def groups(*batches: str, first: int = 1) -> list[str]:
    decoded = map(items, batches)
    return [letters(group) for group in retry_batches(decoded, batch_size=BATCH_SIZE, first=first)]


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        (("a", "bc", "defg"), ["a", "bc", "defg"]),  # nothing waits
        (("A", "bc"), ["A", "bc"]),  # the first segment does not wait
        (("a", "bc", "dEfg", "hIjk"), ["a", "bc", "d", "EfghIjk"]),
        (("a", "bc", "defg", "hIJK", "LMNO", "p"), ["a", "bc", "defg", "h", "IJKLMNO", "p"]),
        (("a", "bc", "defg", "Hijk", "lmno", "pqrs"), ["a", "bc", "defg", "Hijklmno", "pqrs"]),
        (("a", "bc", "dEfg!", "hIjk"), ["a", "bc", "dEfg", "h", "Ijk"]),
        (("a", "bc", "dE"), ["a", "bc", "d", "E"]),  # the end of the input
    ],
)
def test_failed_rows_wait_for_failed_rows_of_the_next_batches(
    batches: Sequence[str], expected: Sequence[str]
) -> None:
    assert groups(*batches) == expected


@given(st.lists(st.text("abCD!", max_size=BATCH_SIZE), max_size=12), st.integers(1, 4))
def test_every_item_is_passed_on_once_in_order(batches: list[str], first: int) -> None:
    found = groups(*batches, first=first)
    assert "".join(found) == "".join(batches).replace("!", "")
    for group in found:
        assert len(group) <= 3 * BATCH_SIZE


def test_items_that_wait_are_passed_on_before_an_error() -> None:
    def batches() -> Iterator[list[Decoded | Flush]]:
        yield items("abcd")
        yield items("eFgh")
        raise EngineError("out of memory")

    found = retry_batches(batches(), batch_size=BATCH_SIZE, first=1)
    assert [letters(next(found)) for _ in range(3)] == ["abcd", "e", "Fgh"]
    with pytest.raises(EngineError, match="out of memory"):
        next(found)


def test_a_transcript_ends_before_its_first_lost_row() -> None:
    one, other = RecordingState(1), RecordingState(2)
    end = End(one, "one", 1.0)
    results = [(one, result("a")), (other, None), (one, result("b")), (one, None)]
    stream: list[Any] = [*results, (one, result("c")), (other, result("d")), end]
    assert list(before_lost_rows(stream)) == [results[0], results[2], end]


def test_only_failed_rows_need_a_retry() -> None:
    assert [is_failed(cast("Decoded", item)) for item in items("aB")] == [False, True]
    assert not is_failed(End(RECORDING, "one", 1.0))
