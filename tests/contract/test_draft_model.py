"""With a draft model, greedy search says what it says without, row by row and token by token."""

import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.contract.test_torch_contract import LENGTHS, features, vocabulary
from whisperbatch import OptionError
from whisperbatch.models.model_bin import variables
from whisperbatch.models.registry import find_model
from whisperbatch.options import DecodeOptions

pytestmark = pytest.mark.torch

__all__ = ["features"]  # a fixture

KEPT = 4  # layers of the decoder
SEARCHES = (
    DecodeOptions(beam_size=1),
    DecodeOptions(beam_size=1, max_new_tokens=7),
    DecodeOptions(beam_size=1, repetition_penalty=1.3, no_repeat_ngram_size=3),
    DecodeOptions(beam_size=1, timestamps="tokens"),
)


def shortened(directory: Path, into: Path) -> Path:
    """The model with the first layers of its decoder only."""
    shutil.copytree(directory, into)
    path = directory / "model.bin"
    with path.open("rb") as file:
        every = list(variables(file, path))
        left_out = tuple(f"decoder/layer_{layer}/" for layer in range(KEPT, 100))
        kept = [one for one in every if not one.name.startswith(left_out)]
        with (into / "model.bin").open("wb") as out:
            out.write(struct.pack("<I", 6) + _string("WhisperSpec"))
            out.write(struct.pack("<II", 3, len(kept)))
            for one in kept:
                out.write(_string(one.name) + struct.pack("<B", len(one.shape)))
                out.write(struct.pack(f"<{len(one.shape)}I", *one.shape))
                out.write(struct.pack("<BI", one.dtype, one.size))
                file.seek(one.offset)
                out.write(file.read(one.size))
            out.write(struct.pack("<I", 0))
    return into


def _string(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shortened(find_model("base"), tmp_path_factory.mktemp("short") / "base")


def engine(compute_type: str, draft_model: Path | None = None) -> Any:
    from whisperbatch.engines.torch.engine import TorchEngine  # noqa: PLC0415 - not always there

    return TorchEngine(
        find_model("base"),
        name="base",
        device="cpu",
        compute_type=compute_type,
        draft_model=draft_model,
    )


def texts(made: Any, heard: npt.NDArray[np.float32], options: DecodeOptions) -> list[Any]:
    words = vocabulary(made)
    prompt = words.prompt("en", "transcribe")
    if options.timestamps == "alignment":
        prompt = [*prompt, words.no_timestamps]
    encoded = made.encode(heard)
    return list(made.generate(encoded, [prompt] * len(heard), options))


@pytest.fixture(
    scope="module", params=[pytest.param("float32", marks=pytest.mark.slow), "bfloat16"]
)
def plain(
    request: pytest.FixtureRequest, features: npt.NDArray[np.float32]
) -> Iterator[tuple[str, list[list[Any]]]]:
    made = engine(request.param)
    yield request.param, [texts(made, features, options) for options in SEARCHES]
    made.close()


@pytest.mark.parametrize("kind", ["itself", "short"])
def test_the_text_is_that_of_plain_greedy_search(
    plain: tuple[str, list[list[Any]]],
    features: npt.NDArray[np.float32],
    short: Path,
    kind: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    compute_type, wanted = plain
    made = engine(compute_type, find_model("base") if kind == "itself" else short)
    for options, expected in zip(SEARCHES, wanted, strict=True):
        caplog.clear()
        with caplog.at_level("DEBUG", "whisperbatch.engines.torch.speculative"):
            assert texts(made, features, options) == expected
        [line] = [one for one in caplog.messages if one.startswith("draft model")]
        rate = float(line.split()[1])
        if options.max_new_tokens is None:
            assert rate > (5 if kind == "itself" else 1)
    made.close()


def test_a_row_does_not_depend_on_the_rows_beside_it(
    features: npt.NDArray[np.float32], short: Path
) -> None:
    made = engine("bfloat16", short)
    together = texts(made, features, SEARCHES[0])
    assert together == [
        texts(made, features[row : row + 1], SEARCHES[0])[0] for row in range(len(LENGTHS))
    ]
    made.close()


def test_another_vocabulary_is_refused() -> None:
    with pytest.raises(OptionError, match="its vocabulary, of 51864 tokens, is not the model's"):
        engine("float32", find_model("tiny.en"))


def test_beams_are_refused(features: npt.NDArray[np.float32], short: Path) -> None:
    made = engine("bfloat16", short)
    with pytest.raises(OptionError, match="beam_size=2: a draft model guesses for greedy search"):
        texts(made, features, DecodeOptions(beam_size=2))
    made.close()


def test_the_short_one_is_a_model_of_its_own(short: Path) -> None:
    assert json.loads((short / "config.json").read_text())
    assert (short / "model.bin").stat().st_size < (find_model("base") / "model.bin").stat().st_size
