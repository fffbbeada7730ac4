import secrets
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from tests.property.random_transcripts import transcripts
from tests.unit.transcripts import COMPLETE
from whisperbatch.errors import WriteError
from whisperbatch.jobs.plans.format import Failure
from whisperbatch.jobs.plans.stores import Store
from whisperbatch.jobs.workers.results import DetectedLanguage, Results, SpanResult
from whisperbatch.types import Transcript

RESULT = SpanResult(
    id="04d2", uri="a.mp3", worker="host-1", engine="fake", started=1.5, finished=2.75
)

STORED = Path(__file__).parents[3] / "data" / "span_result.json"


def new_results() -> Results:
    return Results(Store(f"memory://{secrets.token_hex()}"))


def results_with(name: str, data: bytes) -> Results:
    """Return the results of a store with one object."""
    store = Store(f"memory://{secrets.token_hex()}")
    store.write(name, data)
    return Results(store)


@given(transcripts())
def test_a_transcript_is_read_as_it_was_written(transcript: Transcript) -> None:
    results = new_results()
    result = replace(RESULT, transcript=transcript)
    assert results.create(result)
    assert repr(results.read("04d2")) == repr(result)  # NaN is not equal to itself


def test_a_result_of_an_earlier_version_is_read() -> None:
    results = results_with("results/04/04d2.json", STORED.read_bytes())
    assert results.read("04d2") == replace(RESULT, uri="talk.mp3", transcript=COMPLETE)


def test_the_first_result_of_a_span_stays() -> None:
    results = new_results()
    failed = replace(RESULT, failure=Failure("audio", "a.mp3: is empty"))
    assert results.create(failed)
    assert not results.create(RESULT)
    assert results.read("04d2") == failed
    assert results.ids() == results.failed_ids() == {"04d2"}
    assert results.exists("04d2")
    assert not results.exists("04d3")
    assert results.read("04d3") is None


@pytest.mark.parametrize(
    "data",
    [
        *(b"{", b"[]", b'{"version": 9}', b'{"version": 1}'),
        STORED.read_bytes().replace(b'"checked_duration": 0.5', b'"checked_duration": null'),
        STORED.read_bytes().replace(b'"words": null', b'"words": [3]'),
        STORED.read_bytes().replace(b'"started": 1.5', b'"started": "now"'),
    ],
)
def test_a_damaged_result_is_named(data: bytes) -> None:
    results = results_with("results/04/04d2.json", data)
    with pytest.raises(WriteError, match=r"results/04/04d2\.json: is damaged; delete it"):
        results.read("04d2")


@pytest.mark.parametrize(
    "language",
    [
        DetectedLanguage("fr", 0.93),
        DetectedLanguage(None),
        DetectedLanguage(None, failure=Failure("audio", "a.mp3: is empty")),
    ],
)
def test_a_language_is_read_as_it_was_written(language: DetectedLanguage) -> None:
    results = new_results()
    assert results.language("8c1e") is None
    results.create_language("8c1e", language)
    results.create_language("8c1e", DetectedLanguage("de", 0.5))
    assert results.language("8c1e") == language


@pytest.mark.parametrize("data", [b"{", b"[]", b"null", b'{"failure": null, "speaker": 1}'])
def test_a_damaged_language_is_named(data: bytes) -> None:
    results = results_with("languages/8c1e.json", data)
    with pytest.raises(WriteError, match=r"languages/8c1e\.json: is damaged; delete it"):
        results.language("8c1e")
