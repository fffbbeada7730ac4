import re
from pathlib import Path

import pytest

from tests.unit.engines.architectures import MODELS, PARAMETERS
from whisperbatch.engines.memory import (
    MemoryUse,
    _log_unknown_memory,
    choose_batch_size,
    choose_batches,
)

GIB = 1 << 30
DEVICES = (6, 8, 12, 16, 24, 48, 80)  # GiB
REPORTED = 0.97  # drivers report a few percent less than the nominal size
GUIDE = Path(__file__).parents[3] / "docs/how-to/gpu.md"


def float16(model: str) -> MemoryUse:
    return MemoryUse.of(MODELS[model], weight_bytes=2, value_bytes=2)


def memory(size: int) -> list[int | None]:
    """The memory that a driver reports for a device of this size in GiB."""
    return [round(REPORTED * size * GIB)]


def sizes(model: str, hypotheses: int, *, batches: int | None = None) -> tuple[int, ...]:
    """The batch size on each device, with the default number of batches at a time."""
    use = float16(model)
    return tuple(
        choose_batch_size(
            memory(size),
            use,
            hypotheses=hypotheses,
            batches=batches or choose_batches(memory(size), use),
        )
        for size in DEVICES
    )


@pytest.mark.parametrize("model", MODELS)
def test_the_weights_are_those_of_the_published_number_of_parameters(model: str) -> None:
    assert float16(model).weights / 2 == pytest.approx(PARAMETERS[model], rel=0.07)


def test_the_terms_of_large_v3() -> None:
    use = float16("large-v3")
    cross_attention = 2 * 32 * 1500 * 1280 * 2  # keys and values, layers, positions, d_model, bytes
    encoder = 2 * (20 * 1500 * 1500 + 10 * 1500 * 1280)
    assert use.row == cross_attention + encoder + 2 * 1500 * 1280
    assert use.hypothesis == 2 * 32 * 448 * 1280 * 2 + 4 * 51_865
    assert use.row / 1e6 == pytest.approx(378, abs=1)
    assert use.hypothesis / 1e6 == pytest.approx(74, abs=1)


@pytest.mark.parametrize(
    ("model", "hypotheses", "expected"),
    [
        ("tiny", 1, (64, 64, 64, 64, 64, 64, 64)),
        ("tiny", 5, (64, 64, 64, 64, 64, 64, 64)),
        ("base", 1, (32, 64, 64, 64, 64, 64, 64)),
        ("base", 5, (32, 32, 64, 64, 64, 64, 64)),
        ("large-v3", 1, (2, 4, 8, 16, 32, 64, 64)),
        ("large-v3", 5, (2, 4, 8, 8, 16, 32, 64)),
        ("turbo", 1, (16, 16, 32, 32, 64, 64, 64)),
        ("turbo", 5, (8, 16, 32, 32, 64, 64, 64)),
    ],
)
def test_the_batch_size_of_models_and_devices(
    model: str, hypotheses: int, expected: tuple[int, ...]
) -> None:
    assert sizes(model, hypotheses, batches=1) == expected


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("tiny", (2, 2, 2, 2, 2, 2, 2)),
        ("turbo", (1, 2, 2, 2, 2, 2, 2)),
        ("large-v3", (1, 1, 1, 1, 2, 2, 2)),
    ],
)
def test_two_batches_at_a_time_have_at_least_eight_rows(
    model: str, expected: tuple[int, ...]
) -> None:
    assert tuple(choose_batches(memory(size), float16(model)) for size in DEVICES) == expected


def test_the_smallest_device_decides_about_the_batches() -> None:
    assert choose_batches([80 * GIB, 6 * GIB], float16("turbo")) == 1
    assert choose_batches([None], float16("large-v3")) == 2  # a batch of 8 rows, as on a CPU


def test_unknown_memory_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    _log_unknown_memory.cache_clear()
    for _ in range(2):
        choose_batch_size([None], float16("tiny"), hypotheses=1)
    _log_unknown_memory.cache_clear()
    assert len(caplog.messages) == 1
    assert "the memory of the GPU is unknown" in caplog.text


def test_a_second_array_of_scores_needs_more_memory() -> None:
    one, two = (
        MemoryUse.of(MODELS["turbo"], weight_bytes=2, value_bytes=2, score_arrays=count)
        for count in (1, 2)
    )
    assert two.row - one.row == 2 * 20 * 1500 * 1500


def test_the_table_of_the_documentation() -> None:
    rows = re.findall(r"^\| (\S+), (\d+) \| ([\d |]+) \|$", GUIDE.read_text(), re.MULTILINE)
    table = {(model, int(beams)): tuple(map(int, row.split(" | "))) for model, beams, row in rows}
    assert table == {(model, beams): sizes(model, beams) for model in MODELS for beams in (5, 1)}


def test_weights_in_eight_bits_leave_more_memory_for_rows() -> None:
    use = MemoryUse.of(MODELS["large-v3"], weight_bytes=1, value_bytes=2)
    assert use.weights == float16("large-v3").weights / 2
    assert choose_batch_size([6 * GIB], use, hypotheses=5) == 4


def test_the_smallest_device_decides() -> None:
    use = float16("turbo")
    assert choose_batch_size([80 * GIB, 6 * GIB], use, hypotheses=5) == 8
    assert choose_batch_size([80 * GIB, 80 * GIB], use, hypotheses=5) == 64


@pytest.mark.parametrize("devices", [[None], [80 * GIB, None], [0]])
def test_without_the_memory_of_every_device_the_batch_size_is_that_of_a_cpu(
    devices: list[int | None],
) -> None:
    assert choose_batch_size(devices, float16("tiny"), hypotheses=1) == 8


def test_batches_at_a_time_share_the_memory() -> None:
    use = float16("large-v3")
    sizes = [
        choose_batch_size([24 * GIB], use, hypotheses=5, batches=batches) for batches in (1, 2, 4)
    ]
    assert sizes == [16, 8, 4]


def test_a_draft_model_needs_memory_too() -> None:
    assert choose_batch_size([16 * GIB], float16("large-v3"), hypotheses=1) == 16
    both = float16("large-v3") + float16("medium")
    assert both.weights == float16("large-v3").weights + float16("medium").weights
    assert choose_batch_size([16 * GIB], both, hypotheses=1) == 8
