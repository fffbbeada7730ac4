"""In float32 PyTorch gives CTranslate2's tokens; a draft model does not change the text."""

import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import whisperbatch as wb
from benchmarks import recordings
from tests.contract.engines import requests_for, whisper_tokenizer
from tests.unit.fakes import noise
from whisperbatch import OptionError
from whisperbatch.engines.loading import load_engine
from whisperbatch.engines.settings import TorchSettings
from whisperbatch.features import feature_extractor
from whisperbatch.models.model_bin import Variable, variables
from whisperbatch.models.registry import find_model
from whisperbatch.options import Options
from whisperbatch.protocols import AlignRequest, Encoded, Engine

pytestmark = pytest.mark.torch


LENGTHS = (1400, 1000, 600)  # feature frames of each row
SEARCHES = (
    Options(beam_size=1),
    Options(beam_size=5),
    Options(beam_size=7, patience=1.5, length_penalty=0.5, max_new_tokens=25),
    Options(beam_size=1, repetition_penalty=1.3),
    Options(beam_size=2, no_repeat_ngram_size=2, suppress_tokens=(11, 13)),
    Options(beam_size=1, timestamps="tokens", suppress_blank=False),
    Options(beam_size=5, timestamps="tokens", max_initial_timestamp=0.0),
    Options(beam_size=1, repetition_penalty=1.3, prefix="Please enter"),
    Options(beam_size=5, timestamps="tokens", prefix="Please enter"),
)


@pytest.fixture(scope="module")
def features() -> npt.NDArray[np.float32]:
    samples = (recordings.dense("en", 60).samples / 32768).astype(np.float32)
    extract = feature_extractor("whisper", 80)
    rows = []
    for number, frames in enumerate(LENGTHS):
        row = extract(samples[number * 160_000 :][: frames * 160])
        padding = ((0, 0), (0, 2000 - frames))
        rows.append(np.pad(row, padding, constant_values=extract.pad_value(row)))
    return np.stack(rows)


Pair = tuple[tuple[Engine, Encoded], tuple[Engine, Encoded]]


@pytest.fixture(scope="module")
def pair(features: npt.NDArray[np.float32]) -> Iterator[Pair]:
    """CTranslate2's engine and PyTorch's engine, each with its encoder output."""
    ctranslate2_engine, torch_engine = (
        load_engine("base", engine=name, device="cpu", compute_type="float32")
        for name in ("ctranslate2", "torch")
    )
    yield (
        (ctranslate2_engine, ctranslate2_engine.encode(features)),
        (torch_engine, torch_engine.encode(features)),
    )
    ctranslate2_engine.close()
    torch_engine.close()


@pytest.mark.parametrize("options", SEARCHES)
def test_tokens_equal_those_of_ctranslate2(pair: Pair, options: Options) -> None:
    results = [
        [row.hypothesis for row in engine.decode(encoded, requests, options.search)]
        for engine, encoded in pair
        for requests in [requests_for(engine, LENGTHS, options)]
    ]
    for expected, actual in zip(*results, strict=True):
        assert actual.tokens == expected.tokens
        assert actual.avg_logprob == pytest.approx(expected.avg_logprob, abs=5e-3)
        assert actual.no_speech_prob == pytest.approx(expected.no_speech_prob, abs=1e-4)
    assert len({hypothesis.tokens for hypothesis in results[0]}) == len(LENGTHS)


def test_language_probabilities_equal_those_of_ctranslate2(pair: Pair) -> None:
    results = [engine.detect_language(encoded) for engine, encoded in pair]
    for expected, actual in zip(*results, strict=True):
        assert actual.keys() == expected.keys()
        assert max(abs(actual[code] - expected[code]) for code in expected) < 1e-4


def test_alignment_equals_that_of_ctranslate2(pair: Pair) -> None:
    tokenizer = whisper_tokenizer(pair[0][0])
    prompts = [tokenizer.prompt(code, "transcribe") for code in ("en", "de", "en")]
    texts = [
        tokenizer.encode("Please enter your number."),
        [],
        tokenizer.encode("Thank you, good bye."),
    ]
    requests = [
        AlignRequest(tuple(start), tuple(text), frames)
        for start, text, frames in zip(prompts, texts, LENGTHS, strict=True)
    ]
    results = [engine.align(encoded, requests) for engine, encoded in pair]
    for expected, actual, text in zip(*results, texts, strict=True):
        assert len(actual.starts) == len(text)
        np.testing.assert_allclose(actual.starts, expected.starts, atol=0.021)
        np.testing.assert_allclose(actual.ends, expected.ends, atol=0.021)
        np.testing.assert_allclose(actual.probabilities, expected.probabilities, atol=1e-3)


__all__ = ["features"]  # a fixture

DRAFT_LAYERS = 4  # of the decoder; base has 6
DRAFT_SEARCHES = (
    Options(beam_size=1),
    Options(beam_size=1, max_new_tokens=7),
    Options(beam_size=1, repetition_penalty=1.3, no_repeat_ngram_size=3),
    Options(beam_size=1, timestamps="tokens", prefix="Please enter"),
)


def write_truncated_model(directory: Path, target: Path) -> Path:
    """Write a copy of the model with only the first `DRAFT_LAYERS` layers of its decoder."""
    shutil.copytree(directory, target)
    path = directory / "model.bin"
    with path.open("rb") as file:
        removed_layers = tuple(f"decoder/layer_{layer}/" for layer in range(DRAFT_LAYERS, 100))
        arrays, aliases = dict[int, Variable](), list[tuple[str, str]]()  # arrays by their offset
        for array in variables(file, path):
            if array.offset in arrays:
                aliases.append((array.name, arrays[array.offset].name))
            elif not array.name.startswith(removed_layers):
                arrays[array.offset] = array
        with (target / "model.bin").open("wb") as out:
            out.write(struct.pack("<I", 6) + _string("WhisperSpec"))
            out.write(struct.pack("<II", 3, len(arrays)))
            for array in arrays.values():
                out.write(_string(array.name) + struct.pack("<B", len(array.shape)))
                out.write(struct.pack(f"<{len(array.shape)}I", *array.shape))
                out.write(struct.pack("<BI", array.dtype, array.size))
                file.seek(array.offset)
                out.write(file.read(array.size))
            out.write(struct.pack("<I", len(aliases)))
            for names in aliases:
                out.write(b"".join(map(_string, names)))
    return target


def _string(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


@pytest.fixture(scope="module")
def truncated_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_truncated_model(
        find_model("base"), tmp_path_factory.mktemp("truncated_model") / "base"
    )


def load(compute_type: str, draft_model: Path | None = None) -> Engine:
    draft = {"draft_model": draft_model} if draft_model else {}
    return load_engine("base", engine="torch", device="cpu", compute_type=compute_type, **draft)


def decode(engine: Engine, features: npt.NDArray[np.float32], options: Options) -> list[Any]:
    requests = requests_for(engine, LENGTHS[: len(features)], options)
    decoded = engine.decode(engine.encode(features), requests, options.search)
    return [row.hypothesis for row in decoded]


@pytest.fixture(
    scope="module", params=[pytest.param("float32", marks=pytest.mark.slow), "bfloat16"]
)
def greedy_results(
    request: pytest.FixtureRequest, features: npt.NDArray[np.float32]
) -> Iterator[tuple[str, list[list[Any]]]]:
    """A compute type, and the hypotheses of each of `DRAFT_SEARCHES` without a draft model."""
    engine = load(request.param)
    yield request.param, [decode(engine, features, options) for options in DRAFT_SEARCHES]
    engine.close()


@pytest.mark.parametrize("draft", ["the model itself", "truncated model"])
def test_the_text_equals_that_of_greedy_search(
    greedy_results: tuple[str, list[list[Any]]],
    features: npt.NDArray[np.float32],
    truncated_model: Path,
    draft: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    compute_type, expected_results = greedy_results
    is_same_model = draft == "the model itself"
    engine = load(compute_type, find_model("base") if is_same_model else truncated_model)
    for options, expected in zip(DRAFT_SEARCHES, expected_results, strict=True):
        caplog.clear()
        with caplog.at_level("DEBUG", "whisperbatch.engines.torch.decoding"):
            assert decode(engine, features, options) == expected
        [line] = [message for message in caplog.messages if message.startswith("draft model: ")]
        tokens_per_call = float(line.removeprefix("draft model: ").split()[0])
        if options.max_new_tokens is None:
            assert tokens_per_call > (5 if is_same_model else 1)
    engine.close()


def test_a_row_does_not_depend_on_the_other_rows_of_the_batch(
    features: npt.NDArray[np.float32], truncated_model: Path
) -> None:
    engine = load("bfloat16", truncated_model)
    batch = decode(engine, features, DRAFT_SEARCHES[0])
    single_rows = [
        decode(engine, features[row : row + 1], DRAFT_SEARCHES[0])[0] for row in range(len(LENGTHS))
    ]
    assert batch == single_rows
    engine.close()


def test_another_vocabulary_is_refused() -> None:
    with pytest.raises(OptionError, match="its vocabulary of 51864 tokens differs from the model"):
        load("float32", find_model("tiny.en"))


def test_beam_search_is_refused_before_the_model_is_loaded() -> None:
    settings = TorchSettings(draft_model="missing")
    with pytest.raises(OptionError, match="beam_size=5: draft_model works with greedy search only"):
        wb.transcribe(noise(1), model="missing", engine=settings)


def test_a_loaded_model_refuses_beam_search(truncated_model: Path) -> None:
    settings = TorchSettings(draft_model=truncated_model)
    refused = pytest.raises(OptionError, match="beam_size=2: draft_model works with greedy search")
    with wb.load("base", engine=settings, device="cpu") as asr, refused:
        asr.stream(noise(1), beam_size=2)


def test_retries_of_a_noisy_recording_run_without_the_draft_model(truncated_model: Path) -> None:
    """Retries use five beams, which a draft model cannot guess for."""
    clean = recordings.prompts("en", duration=10).samples / 32768
    noisy = (clean + 0.03 * np.random.default_rng(0).standard_normal(len(clean))).astype(np.float32)
    options = Options(beam_size=1, language="en", log_prob_threshold=-0.2)
    transcripts = []
    for draft_model in (None, truncated_model):
        settings = TorchSettings(draft_model=draft_model)
        with wb.load("base", engine=settings, device="cpu") as asr:
            transcripts.append(asr.transcribe(noisy, options=options))
    assert transcripts[0].redecoded > 0
    assert transcripts[1] == transcripts[0]


def test_the_truncated_model_is_smaller(truncated_model: Path) -> None:
    assert json.loads((truncated_model / "config.json").read_text())
    truncated_size = (truncated_model / "model.bin").stat().st_size
    assert truncated_size < (find_model("base") / "model.bin").stat().st_size
