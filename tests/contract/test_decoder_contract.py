"""What every decoder must do: find what float32 finds, and place it where that does."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks import recordings
from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.engines.ctranslate2.engine import CTranslate2Engine
from whisperbatch.features import feature_extractor
from whisperbatch.models.registry import find_model
from whisperbatch.options import DecodeOptions
from whisperbatch.protocols import Alignment
from whisperbatch.types import Hypothesis

SETUPS = (
    # decoder, arithmetic, how far the log-probability of a text may be from float32's
    pytest.param(("ctranslate2", "int8", 0.05), marks=pytest.mark.slow),
    ("openvino", "int8", 0.03),
    ("openvino", "float32", 2e-3),
)
FRAMES = (2800, 2400, 1500, 700)
SEARCHES = (
    DecodeOptions(beam_size=1),
    DecodeOptions(beam_size=5),
    DecodeOptions(beam_size=3, patience=2.0, length_penalty=0.5, max_new_tokens=20),
    DecodeOptions(beam_size=2, suppress_blank=False, suppress_tokens=(11, 13)),
    DecodeOptions(beam_size=2, no_repeat_ngram_size=2),
)

Found = tuple[list[Hypothesis], list[Alignment]]


def engine(decoder: str, compute_type: str) -> CTranslate2Engine:
    return CTranslate2Engine(
        find_model("base"),
        name="base",
        device="cpu",
        compute_type=compute_type,
        encoder="openvino",
        decoder=decoder,
    )


@pytest.fixture(scope="module")
def features() -> npt.NDArray[np.float32]:
    """Four rows: long ones, a short one, and one with little in it."""
    samples = (recordings.dense("en", 60).samples / 32768).astype(np.float32)
    extract = feature_extractor("whisper", 80)
    rows = []
    for number, frames in enumerate(FRAMES):
        made = extract(samples[number * 160_000 :][: frames * 160])
        padding = ((0, 0), (0, 3000 - made.shape[1]))
        rows.append(np.pad(made, padding, constant_values=extract.pad_value(made)))
    return np.stack(rows)


def decoded(
    made: CTranslate2Engine, features: npt.NDArray[np.float32], options: DecodeOptions
) -> Found:
    vocabulary = WhisperTokenizer(made.tokenizer, multilingual=True)
    start = vocabulary.prompt("en", "transcribe")
    encoded = made.encode(features)
    count = len(features)
    found = made.generate(encoded, [[*start, vocabulary.no_timestamps]] * count, options)
    texts = [list(one.tokens) for one in found]
    return found, made.align(encoded, [start] * count, texts, FRAMES[:count])


@pytest.fixture(scope="module")
def exact(features: npt.NDArray[np.float32]) -> list[Found]:
    made = engine("ctranslate2", "float32")
    found = [decoded(made, features, options) for options in SEARCHES]
    made.close()
    return found


@pytest.fixture(scope="module", params=SETUPS, ids=lambda setup: f"{setup[0]} {setup[1]}")
def setup(
    request: pytest.FixtureRequest, features: npt.NDArray[np.float32]
) -> Iterator[tuple[list[Found], float, bool]]:
    decoder, compute_type, most = request.param
    made = engine(decoder, compute_type)
    yield (
        [decoded(made, features, options) for options in SEARCHES],
        most,
        compute_type == "float32",
    )
    made.close()


@pytest.mark.parametrize("search", range(len(SEARCHES)))
def test_a_decoder_is_near_to_float32(
    setup: tuple[list[Found], float, bool], exact: list[Found], search: int
) -> None:
    found, most, same = setup
    for one, wanted in zip(found[search][0], exact[search][0], strict=True):
        assert one.avg_logprob == pytest.approx(wanted.avg_logprob, abs=most)
        assert one.no_speech_prob == pytest.approx(wanted.no_speech_prob, abs=most)
        if same:
            assert one.tokens == wanted.tokens
        else:
            assert abs(len(one.tokens) - len(wanted.tokens)) <= 3


@pytest.mark.parametrize("search", range(len(SEARCHES)))
def test_texts_lie_where_float32_places_them(
    setup: tuple[list[Found], float, bool], exact: list[Found], search: int
) -> None:
    found, _, same = setup
    compared = 0
    pairs = zip(*found[search], *exact[search], strict=True)
    for one, placed, wanted, wanted_placed in pairs:
        if one.tokens != wanted.tokens:
            assert not same
            continue
        compared += len(one.tokens)
        for own, other in (
            (placed.starts, wanted_placed.starts),
            (placed.ends, wanted_placed.ends),
        ):
            assert np.median(np.abs(own - other)) <= 0.02
            assert (np.abs(own - other) <= 0.1).mean() > 0.9
        difference = np.abs(placed.probabilities - wanted_placed.probabilities)
        # CTranslate2 tells them without the tokens that are never decoded, others with
        assert np.median(difference) < 0.03
    assert compared > 10


def test_languages_are_as_probable_as_in_float32(features: npt.NDArray[np.float32]) -> None:
    wanted, found = (
        made.detect_language(made.encode(features))
        for made in (engine("ctranslate2", "float32"), engine("openvino", "int8"))
    )
    for one, other in zip(found, wanted, strict=True):
        assert one.keys() == other.keys()
        assert sum(one.values()) == pytest.approx(1, abs=1e-5)
        assert max(abs(one[code] - other[code]) for code in one) < 0.05
