from concurrent.futures import ThreadPoolExecutor

import pytest

from whisperbatch.errors import EngineError
from whisperbatch.language import Decision, Languages, decide


def test_speech_counts_by_its_length() -> None:
    rows = [{"en": 0.9, "de": 0.1}, {"en": 0.2, "de": 0.8}]
    for weights, language, probability in (([1, 1], "en", 0.55), ([1, 3], "de", 0.625)):
        decision = decide(rows, weights)
        assert decision.language == language
        assert decision.probability == pytest.approx(probability)


def test_one_row_is_its_own_best() -> None:
    assert decide([{"en": 0.25, "de": 0.5, "fr": 0.25}], [0.1]) == Decision("de", 0.5)


def test_rows_and_weights_must_be_as_many() -> None:
    with pytest.raises(ValueError, match="zip"):
        decide([{"en": 1.0}], [1, 1])


def test_arguments_are_left_as_they_are() -> None:
    rows, weights = [{"en": 0.6, "de": 0.4}], [2.0]
    decide(rows, weights)
    assert (rows, weights) == ([{"en": 0.6, "de": 0.4}], [2.0])


def test_a_given_language_is_never_decided() -> None:
    languages = Languages("fr")
    assert languages.of(0) == languages.of(7) == Decision("fr", 1.0)


def test_a_recording_without_speech_has_no_language() -> None:
    assert Languages(None).of(0) is None


def test_later_batches_wait_for_the_decision() -> None:
    languages = Languages(None)
    languages.claim(0)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(languages.of, 0) for _ in range(4)]
        assert not any(future.done() for future in waiting)
        languages.settle(0, Decision("de", 0.8))
        assert [future.result(5) for future in waiting] == [Decision("de", 0.8)] * 4
    assert languages.of(0) == Decision("de", 0.8)


def test_a_failed_decision_fails_all_who_wait_and_no_other() -> None:
    languages = Languages(None)
    languages.claim(0)
    languages.claim(1)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(languages.of, 0) for _ in range(2)]
        languages.fail(0, EngineError("out of memory"))
        for future in waiting:
            with pytest.raises(EngineError, match="out of memory"):
                future.result(5)
    languages.settle(1, Decision("en", 0.9))
    assert languages.of(1) == Decision("en", 0.9)


def test_what_is_settled_cannot_fail() -> None:
    languages = Languages(None)
    languages.claim(0)
    languages.settle(0, Decision("en", 0.9))
    languages.fail(0, EngineError("later"))
    assert languages.of(0) == Decision("en", 0.9)
