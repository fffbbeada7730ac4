"""The default batch size on a GPU."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.engines.architectures import MODELS
from whisperbatch.engines.memory import MEMORY_SHARE, MemoryUse, choose_batch_size

GIB = 1 << 30
memory = st.integers(1, 200 * GIB)
uses = st.builds(
    MemoryUse.of,
    st.sampled_from([*MODELS.values()]),
    weight_bytes=st.sampled_from((1, 2, 4)),
    value_bytes=st.sampled_from((2, 4)),
)


@given(memory, uses, st.integers(1, 100), st.integers(1, 64))
def test_the_batch_fits(device: int, use: MemoryUse, hypotheses: int, batches: int) -> None:
    size = choose_batch_size([device], use, hypotheses=hypotheses, batches=batches)
    assert size in {1, 2, 4, 8, 16, 32, 64}

    def needed(rows: int) -> int:
        return use.weights + batches * rows * (use.row + hypotheses * use.hypothesis)

    assert size == 1 or needed(size) <= MEMORY_SHARE * device
    assert size == 64 or needed(2 * size) > MEMORY_SHARE * device


@given(uses, st.lists(memory, min_size=2, max_size=4), st.integers(1, 32))
def test_more_memory_never_gives_a_smaller_batch(
    use: MemoryUse, devices: list[int], hypotheses: int
) -> None:
    sizes = [choose_batch_size([device], use, hypotheses=hypotheses) for device in sorted(devices)]
    assert sizes == sorted(sizes)
    assert choose_batch_size(devices, use, hypotheses=hypotheses) == sizes[0]


@given(uses, memory, st.integers(1, 31))
def test_more_hypotheses_never_give_a_larger_batch(
    use: MemoryUse, device: int, hypotheses: int
) -> None:
    fewer, more = (
        choose_batch_size([device], use, hypotheses=count) for count in (hypotheses, hypotheses + 1)
    )
    assert more <= fewer
