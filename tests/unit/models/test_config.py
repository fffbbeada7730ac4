"""The settings of a model, and values that would index beyond an array."""

from pathlib import Path
from typing import Any

import pytest

from whisperbatch.errors import ModelError
from whisperbatch.models.architecture import Architecture
from whisperbatch.models.config import FIELDS, ModelConfig, check_config

PATH = Path("config.json")


def architecture(decoder_layers: int = 6) -> Architecture:
    return Architecture(
        d_model=512,
        heads={"encoder": 8, "decoder": 8},
        layers={"encoder": 6, "decoder": decoder_layers},
        n_mels=80,
        vocabulary_size=51_865,
        ties_projection=True,
    )


def check(decoder_layers: int = 6, **content: Any) -> ModelConfig:
    return check_config(content, PATH, architecture(decoder_layers))


def error_message(**content: Any) -> str:
    with pytest.raises(ModelError) as caught:
        check(**content)
    message = str(caught.value)
    assert message.startswith("config.json: ")
    assert "\n" not in message
    assert len(message) < 300
    return message


def test_settings_in_range() -> None:
    config = check(
        suppress_ids=[0, 51_864], suppress_ids_begin=[220, 50_257], lang_ids=[50_259],
        alignment_heads=[[5, 7], [0, 0]],
    )  # fmt: skip
    assert config == ModelConfig(
        suppress_ids=(0, 51_864),
        suppress_ids_begin=(220, 50_257),
        lang_ids=(50_259,),
        alignment_heads=((5, 7), (0, 0)),
    )


def test_settings_may_be_missing_or_null() -> None:
    assert check() == ModelConfig(missing=FIELDS)
    nothing: dict[str, Any] = dict.fromkeys(FIELDS)
    assert check(**nothing) == ModelConfig()
    assert check(other_field=[10**30], layer_norm_epsilon=None).missing == FIELDS


@pytest.mark.parametrize("field", FIELDS[:3])
@pytest.mark.parametrize(
    "value",
    [
        [10**9], [51_865], [-1], [10**29], ["a"], [None], [True], [1.0], [[1]], [{}], [1, 2, -5],
        "abc", 5, {}, {"0": 1}, True, ["x" * 1000],
    ],
)  # fmt: skip
def test_tokens_that_the_weights_do_not_have(field: str, value: Any) -> None:
    assert f"config.json: {field}=" in error_message(**{field: value})


@pytest.mark.parametrize(
    "value",
    [
        [[99, 99]], [[-1, -1]], [[6, 0]], [[0, 8]], [[0, -1]], [[0]], [[0, 1, 2]], [0, 1], ["ab"],
        [{"0": 1, "1": 1}], [[0.0, 1]], [[True, False]], [["0", "1"]], [None], 7, "a", [[5, 7], []],
    ],
)  # fmt: skip
def test_heads_that_the_decoder_does_not_have(value: Any) -> None:
    assert "config.json: alignment_heads=" in error_message(alignment_heads=value)


def test_the_heads_of_the_complete_decoder_are_not_those_of_a_shortened_one() -> None:
    heads = [[3, 1], [4, 2], [5, 6]]
    assert check(decoder_layers=2, alignment_heads=heads).alignment_heads == ()
    assert check(decoder_layers=2, alignment_heads=[[1, 1]]).alignment_heads == ((1, 1),)
    for wrong in ([[6, 0]], [[3, 8]], [[-1, 0]]):
        assert "alignment_heads" in error_message(decoder_layers=2, alignment_heads=wrong)


@pytest.mark.parametrize("value", ["1e-5", 0.0, -1e-5, 1e300, [], True])
def test_the_epsilon_that_ctranslate2_reads(value: Any) -> None:
    assert "layer_norm_epsilon=" in error_message(layer_norm_epsilon=value)
    check(layer_norm_epsilon=1e-5)


def test_the_name_in_the_file_is_given() -> None:
    names = {"suppress_ids": "suppress_tokens"}
    with pytest.raises(ModelError, match=r"generation_config\.json: suppress_tokens=\['a'\]"):
        check_config({"suppress_ids": ["a"]}, Path("generation_config.json"), architecture(), names)
