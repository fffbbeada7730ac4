"""The same recording, options and seed give the same transcript, to the last digit."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
import numpy.typing as npt
import pytest

import whisperbatch as wb
from benchmarks import recordings
from whisperbatch.engines.settings import LoadKeywords

Sound = npt.NDArray[np.int16]
Temperature = float | tuple[float, ...]

# noise makes some rows fail, and short chunks make many rows
OPTIONS = wb.Options(
    language="en", beam_size=1, chunk_length=8.0, log_prob_threshold=-0.3, word_timestamps=True
)
TEMPERATURES: tuple[Temperature, ...] = ((0.0, 0.4), 0.8)


LOADED: dict[str, LoadKeywords] = {
    "ctranslate2": {"engine": "ctranslate2", "compute_type": "int8"},
    "openvino": {"engine": "openvino", "compute_type": "int8"},
    "onnxruntime": {"engine": "onnxruntime", "compute_type": "int8"},
    "torch float32": {"engine": "torch", "compute_type": "float32"},
    "torch bfloat16": {"engine": "torch", "compute_type": "bfloat16"},
}
SETUPS = (
    pytest.param(("ctranslate2", 1), marks=pytest.mark.slow),
    ("ctranslate2", 2),
    ("openvino", 2),
    ("onnxruntime", 2),
    pytest.param(("torch float32", 1), marks=[pytest.mark.torch, pytest.mark.slow]),
    pytest.param(("torch bfloat16", 1), marks=[pytest.mark.torch, pytest.mark.slow]),
)
CTRANSLATE2_SLOW = tuple(
    pytest.param(setup, marks=pytest.mark.slow) if setup == ("ctranslate2", 2) else setup
    for setup in SETUPS
)


def named(setup: tuple[str, int]) -> str:
    return f"{setup[0]}, {setup[1]} workers"


@pytest.fixture(scope="module", params=SETUPS, ids=named)
def setup(request: pytest.FixtureRequest) -> tuple[str, int]:
    found: tuple[str, int] = request.param
    return found


@pytest.fixture(scope="module")
def tiny(setup: tuple[str, int]) -> Iterator[wb.Transcriber]:
    kind, workers = setup
    with wb.load("tiny.en", **LOADED[kind] | {"device": "cpu", "inter_threads": workers}) as asr:
        yield asr


@pytest.fixture(scope="module")
def sources() -> list[Sound]:
    rng = np.random.default_rng(0)
    found = []
    for seed in range(3):
        clean = recordings.prompts("en", duration=15 + 5 * seed, seed=seed).samples
        noisy = clean + 1000 * rng.standard_normal(len(clean))
        found.append(noisy.clip(-32768, 32767).astype(np.int16))
    return found


@pytest.fixture(scope="module")
def expected(
    setup: tuple[str, int], sources: list[Sound]
) -> dict[Temperature, list[wb.Transcript]]:
    """One worker, one row at a time, one recording at a time; searched and sampled."""
    with wb.load("tiny.en", **LOADED[setup[0]] | {"device": "cpu"}) as asr:
        return {
            temperature: [
                asr.transcribe(source, options=OPTIONS, batch_size=1, temperature=temperature)
                for source in sources
            ]
            for temperature in TEMPERATURES
        }


@pytest.mark.slow
def test_the_recordings_need_retries_and_samples(
    expected: dict[Temperature, list[wb.Transcript]],
) -> None:
    found = [transcript for transcripts in expected.values() for transcript in transcripts]
    assert sum(transcript.redecoded for transcript in found) > 0
    assert any(segment.temperature for transcript in found for segment in transcript.segments)


@pytest.mark.parametrize("batch_size", [1, 3, 16])
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_neither_batch_size_nor_workers_make_a_difference(
    tiny: wb.Transcriber,
    sources: list[Sound],
    expected: dict[Temperature, list[wb.Transcript]],
    batch_size: int,
    temperature: Temperature,
) -> None:
    found = tiny.transcribe(
        sources[1], options=OPTIONS, batch_size=batch_size, temperature=temperature
    )
    assert found == expected[temperature][1]


@pytest.mark.parametrize("setup", CTRANSLATE2_SLOW, indirect=True, ids=named)
def test_beams_do_not_depend_on_the_batch(tiny: wb.Transcriber, sources: list[Sound]) -> None:
    """One row at a time, and all that there are, which leave when they are done."""
    alone, *others = (
        tiny.transcribe(sources[2], options=OPTIONS, beam_size=5, batch_size=batch_size)
        for batch_size in (1, 3, 16)
    )
    assert others == [alone, alone]
    assert alone.text


@pytest.mark.parametrize("setup", CTRANSLATE2_SLOW, indirect=True, ids=named)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_order_of_recordings_makes_no_difference(
    tiny: wb.Transcriber,
    sources: list[Sound],
    expected: dict[Temperature, list[wb.Transcript]],
    seed: int,
) -> None:
    order = list(range(len(sources)))
    Random(seed).shuffle(order)  # noqa: S311 - an order, not a secret
    for temperature in TEMPERATURES:
        shuffled = tiny.transcribe_many(
            [sources[n] for n in order], options=OPTIONS, temperature=temperature
        )
        assert list(shuffled) == [expected[temperature][n] for n in order]


@pytest.mark.parametrize("setup", CTRANSLATE2_SLOW, indirect=True, ids=named)
def test_another_seed_gives_other_samples(tiny: wb.Transcriber, sources: list[Sound]) -> None:
    one, other = (
        tiny.transcribe(sources[0], options=OPTIONS, temperature=1.0, seed=seed) for seed in (0, 1)
    )
    assert one.text != other.text


@pytest.mark.slow
def test_the_language_does_not_depend_on_the_batch() -> None:
    """The first 25 s are Spanish, the rest English."""
    parts = [recordings.prompts(code, duration=25).samples for code in ("es", "en")]
    source = np.concatenate(parts)
    with wb.load("base", device="cpu", compute_type="int8") as asr:
        first, *others = (
            asr.transcribe(source, batch_size=batch_size, beam_size=1) for batch_size in (1, 16)
        )
        [alone] = asr.transcribe_many([source], batch_size=2, beam_size=1)
    assert [*others, alone] == [first] * 2
    assert 0 < first.language_probability < 1


@pytest.mark.slow
@pytest.mark.parametrize("setup", CTRANSLATE2_SLOW, indirect=True, ids=named)
def test_text_before_a_chunk_does_not_depend_on_the_batch(
    tiny: wb.Transcriber, sources: list[Sound]
) -> None:
    options = replace(OPTIONS, log_prob_threshold=-1.0, condition_on_previous_text=True)
    alone = [tiny.transcribe(source, options=options, batch_size=1) for source in sources]
    for batch_size in (3, 16):
        together = tiny.transcribe_many(sources, options=options, batch_size=batch_size)
        assert list(together) == alone
    without = replace(options, condition_on_previous_text=False)
    # a context may change no word, but it changes the probability of every word
    assert list(tiny.transcribe_many(sources, options=without)) != alone
