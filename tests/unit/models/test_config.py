"""The settings and the sizes of a model; values that contradict each other."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whisperbatch.errors import ModelError
from whisperbatch.models.architecture import Architecture, RandomModel, read_architecture
from whisperbatch.models.config import FIELDS, ModelConfig, check_config
from whisperbatch.models.model_bin import TYPE_NUMBERS, Variable

CONFIG = Path("config.json")


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
    return check_config(content, CONFIG, architecture(decoder_layers))


def config_error(**content: Any) -> str:
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
    assert f"config.json: {field}=" in config_error(**{field: value})


@pytest.mark.parametrize(
    "value",
    [
        [[99, 99]], [[-1, -1]], [[6, 0]], [[0, 8]], [[0, -1]], [[0]], [[0, 1, 2]], [0, 1], ["ab"],
        [{"0": 1, "1": 1}], [[0.0, 1]], [[True, False]], [["0", "1"]], [None], 7, "a", [[5, 7], []],
    ],
)  # fmt: skip
def test_heads_that_the_decoder_does_not_have(value: Any) -> None:
    assert "config.json: alignment_heads=" in config_error(alignment_heads=value)


def test_the_heads_of_the_complete_decoder_are_not_those_of_a_shortened_one() -> None:
    heads = [[3, 1], [4, 2], [5, 6]]
    assert check(decoder_layers=2, alignment_heads=heads).alignment_heads == ()
    assert check(decoder_layers=2, alignment_heads=[[1, 1]]).alignment_heads == ((1, 1),)
    for wrong in ([[6, 0]], [[3, 8]], [[-1, 0]]):
        assert "alignment_heads" in config_error(decoder_layers=2, alignment_heads=wrong)


@pytest.mark.parametrize("value", ["1e-5", 0.0, -1e-5, 1e300, [], True])
def test_the_epsilon_that_ctranslate2_reads(value: Any) -> None:
    assert "layer_norm_epsilon=" in config_error(layer_norm_epsilon=value)
    check(layer_norm_epsilon=1e-5)


def test_the_name_in_the_file_is_given() -> None:
    names = {"suppress_ids": "suppress_tokens"}
    with pytest.raises(ModelError, match=r"generation_config\.json: suppress_tokens=\['a'\]"):
        check_config({"suppress_ids": ["a"]}, Path("generation_config.json"), architecture(), names)


SIZES = RandomModel(d_model=12, heads=3, layers=3, decoder_layers=2, vocabulary_size=50, n_mels=128)
MODEL_BIN = Path("model.bin")
INT8 = TYPE_NUMBERS[np.dtype(np.int8)]
INT16 = TYPE_NUMBERS[np.dtype(np.int16)]
FLOAT32, BFLOAT16 = 0, 5


def headers(sizes: RandomModel = SIZES) -> dict[str, Variable]:
    """The headers of a random model, with the alias of the projection."""
    found = {
        name: Variable(
            name,
            array.shape,
            TYPE_NUMBERS[array.dtype],
            offset,
            array.nbytes,
            None if array.ndim else float(array),
        )
        for offset, (name, array) in enumerate(sizes.arrays().items())
    }
    embeddings = found["decoder/embeddings/weight"]
    return {**found, "decoder/projection/weight": embeddings}


HEADERS = headers()


def changed(name: str, header: Variable | None) -> dict[str, Variable]:
    others = {key: value for key, value in HEADERS.items() if key != name}
    return others if header is None else {**others, name: replace(header, name=name)}


def error_message(found: Mapping[str, Variable]) -> str:
    with pytest.raises(ModelError) as caught:
        read_architecture(found, MODEL_BIN)
    message = str(caught.value)
    assert message.startswith("model.bin: ")
    assert "\n" not in message
    return message


def test_the_sizes() -> None:
    architecture = read_architecture(HEADERS, MODEL_BIN)
    assert architecture == Architecture(
        d_model=12,
        heads={"encoder": 3, "decoder": 3},
        layers={"encoder": 3, "decoder": 2},
        n_mels=128,
        vocabulary_size=50,
        ties_projection=True,
    )
    assert architecture.is_distilled
    same_depth = read_architecture(headers(replace(SIZES, decoder_layers=3)), MODEL_BIN)
    assert not same_depth.is_distilled


@pytest.mark.parametrize(
    "name", sorted({*HEADERS} - {"decoder/projection/weight", "decoder/pre_norm"})
)
def test_every_array_is_needed(name: str) -> None:
    assert "missing" in error_message(changed(name, None))


@pytest.mark.parametrize("name", HEADERS)
def test_every_size_counts(name: str) -> None:
    """One size of an array cannot be changed, except where the model has no second array of it."""
    shape = HEADERS[name].shape
    free = {("encoder/conv1/weight", 1), ("decoder/position_encodings/encodings", 0)}
    free |= {("encoder/position_encodings/encodings", 0)}
    for axis in range(len(shape)):
        for size in (0, shape[axis] + 1):
            if size and (name, axis) in free:
                continue
            wrong = (*shape[:axis], size, *shape[axis + 1 :])
            assert "shape" in error_message(changed(name, replace(HEADERS[name], shape=wrong)))
    assert error_message(changed(name, replace(HEADERS[name], shape=(*shape, 1), value=None)))


@pytest.mark.parametrize(
    ("name", "dtype", "value"),
    [
        ("decoder/num_heads", INT16, 0),
        ("decoder/num_heads", INT16, -3),
        ("decoder/num_heads", INT16, 5),
        ("encoder/num_heads", FLOAT32, math.nan),
        ("encoder/num_heads", INT16, 24),
        ("decoder/activation", INT8, 0),
        ("decoder/scale_embeddings", INT8, 1),
        ("decoder/pre_norm", INT8, 0),
        ("decoder/alignment_layer", INT16, 2),
        ("decoder/alignment_layer", INT16, -3),
        ("decoder/alignment_heads", INT16, 4),
        ("decoder/alignment_heads", INT16, -1),
        ("decoder/alibi", INT8, 1),
        ("decoder/layer_0/self_attention/multi_query", INT8, 1),
        ("decoder/layer_0/self_attention/head_dim", INT16, 0),
    ],
)
def test_numbers_out_of_range(name: str, dtype: int, value: float) -> None:
    assert name in error_message(changed(name, Variable(name, (), dtype, value=value)))


def test_numbers_in_range() -> None:
    for name, dtype, value in (
        ("decoder/alignment_layer", INT16, -1),
        ("decoder/alignment_heads", INT16, 1),
        ("decoder/alibi", INT8, 0),
        ("decoder/scale_alibi", INT8, 1),
        ("decoder/a_flag_of_a_later_version", INT8, 0),
    ):
        read_architecture(changed(name, Variable(name, (), dtype, value=value)), MODEL_BIN)


@pytest.mark.parametrize(
    "name",
    [
        "decoder/layer_7/ffn/linear_0/weight",
        "encoder/layer_99999999999/ffn/linear_0/weight",
        "decoder/project_in/weight",
        "decoder/layer_0/self_attention/relative_position_keys",
        "d\ufffdcoder/embeddings/weight",
        pytest.param("x" * 60_000, id="long"),
    ],
)
def test_arrays_that_whisper_does_not_have(name: str) -> None:
    message = error_message(changed(name, Variable(name, (12, 12), FLOAT32)))
    assert len(message) < 300


def test_layers_without_a_gap() -> None:
    moved = {name.replace("decoder/layer_1/", "decoder/layer_2/"): h for name, h in HEADERS.items()}
    assert "decoder/layer_" in error_message(moved)
    none = {name: h for name, h in HEADERS.items() if not name.startswith("encoder/layer_")}
    assert "encoder/layer_" in error_message(none)


def test_the_positions_of_30_seconds_and_of_a_text() -> None:
    for part, positions in (("encoder", 1500), ("decoder", 448)):
        name = f"{part}/position_encodings/encodings"
        short = replace(HEADERS[name], shape=(positions - 1, 12))
        assert f"has {positions - 1} positions instead of" in error_message(changed(name, short))
        read_architecture(changed(name, replace(short, shape=(positions + 9, 12))), MODEL_BIN)


def test_mel_bands() -> None:
    name = "encoder/conv1/weight"
    many = replace(HEADERS[name], shape=(12, 10**9, 3))
    assert "1000000000 mel bands" in error_message(changed(name, many))


def test_weights_of_8_and_16_bits() -> None:
    name = "decoder/layer_1/ffn/linear_0/weight"
    for dtype, shape in ((INT8, (48,)), (INT16, ()), (INT16, (1,))):
        integers = changed(name, replace(HEADERS[name], dtype=dtype))
        scale = Variable(f"{name}_scale", shape, FLOAT32)
        read_architecture({**integers, scale.name: scale}, MODEL_BIN)
        for wrong in ((47,), (48, 1)):
            bad = replace(scale, shape=wrong)
            assert "_scale' has shape" in error_message({**integers, scale.name: bad})
    integers = changed(name, replace(HEADERS[name], dtype=INT8))
    assert "_scale' is missing" in error_message(integers)
    scalar = Variable(f"{name}_scale", (), FLOAT32, value=1.0)
    assert "_scale' has shape ()" in error_message({**integers, scalar.name: scalar})
    assert "has no scale" in error_message({**HEADERS, scalar.name: scalar})
    read_architecture(changed(name, replace(HEADERS[name], dtype=BFLOAT16)), MODEL_BIN)


def test_biases_are_floats() -> None:
    name = "decoder/layer_1/ffn/linear_0/bias"
    for dtype in (INT8, INT16, 3):
        assert "wrong type" in error_message(changed(name, replace(HEADERS[name], dtype=dtype)))
    name = "decoder/layer_1/ffn/linear_0/weight"
    assert "wrong type" in error_message(changed(name, replace(HEADERS[name], dtype=3)))


def test_another_projection_is_recognised() -> None:
    name = "decoder/projection/weight"
    other = changed(name, replace(HEADERS[name], offset=10**6))
    assert not read_architecture(other, MODEL_BIN).ties_projection
    assert read_architecture(changed(name, None), MODEL_BIN).ties_projection
