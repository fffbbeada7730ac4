import numpy as np

from whisperbatch.engines.openvino.encoder_output import EncoderOutput

STATES = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
SIZES = np.array([[1, 3, 1], [2, 1, 2]])


def test_a_state_of_a_group_is_repeated_for_each_position() -> None:
    merged = EncoderOutput(STATES, SIZES)
    by_position = merged.by_position()
    assert by_position.shape == (2, 5, 2)
    assert by_position[0, :, 0].tolist() == [0, 2, 2, 2, 4]
    assert by_position[1, :, 0].tolist() == [6, 6, 8, 10, 10]
    assert [merged.groups(row).tolist() for row in range(2)] == [  # type: ignore[union-attr]
        [0, 1, 1, 1, 2],
        [0, 0, 1, 2, 2],
    ]


def test_rows_keep_their_groups_in_another_batch() -> None:
    first, second = EncoderOutput(STATES, SIZES).split()
    assert (first.rows, second.rows) == (1, 1)
    joined = EncoderOutput.join([second, first, second])
    assert joined.rows == 3
    assert np.array_equal(joined.states, STATES[[1, 0, 1]])
    assert joined.sizes is not None
    assert np.array_equal(joined.sizes, SIZES[[1, 0, 1]])


def test_without_merging_a_position_has_its_own_state() -> None:
    output = EncoderOutput(STATES)
    assert output.by_position() is STATES
    assert output.groups(0) is None
    joined = EncoderOutput.join(output.split()[::-1])
    assert joined.sizes is None
    assert np.array_equal(joined.states, STATES[::-1])
