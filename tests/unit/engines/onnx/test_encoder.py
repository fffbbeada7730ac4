import numpy as np

from whisperbatch.engines.onnx.encoder import EncoderOutput

STATES = tuple(np.arange(12, dtype=np.float32).reshape(2, 3, 2))
SIZES = (np.array([1, 3, 1]), np.array([2, 1, 2]))


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
    assert joined.sizes is not None
    for row, source in enumerate((1, 0, 1)):
        assert np.array_equal(joined.states[row], STATES[source])
        assert np.array_equal(joined.sizes[row], SIZES[source])


def test_rows_with_the_same_number_of_states_are_decoded_together() -> None:
    whole = (np.zeros((5, 2), np.float32), np.ones(5, np.int64))
    output = EncoderOutput((STATES[0], whole[0], STATES[1]), (SIZES[0], whole[1], SIZES[1]))
    assert output.rows_by_length() == [[0, 2], [1]]
    assert output.by_position().shape == (3, 5, 2)
    selected = output.select([2, 1])
    assert selected.sizes is not None
    assert np.array_equal(selected.states[0], STATES[1])
    assert np.array_equal(selected.sizes[1], whole[1])


def test_without_merging_a_position_has_its_own_state() -> None:
    output = EncoderOutput(STATES)
    assert np.array_equal(output.by_position(), STATES)
    assert output.groups(0) is None
    joined = EncoderOutput.join(output.split()[::-1])
    assert joined.sizes is None
    assert np.array_equal(joined.states, STATES[::-1])
