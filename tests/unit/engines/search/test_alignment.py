import numpy as np

from whisperbatch.engines.alignment import DecodingTrace


def test_a_group_of_positions_is_aligned_like_positions_with_equal_keys() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 9, 40)
    groups = np.repeat(np.arange(40), sizes)
    queries = rng.standard_normal((3, 12, 8)).astype(np.float32)
    keys = rng.standard_normal((3, 40, 8)).astype(np.float32)
    tokens, logprobs = tuple(range(8)), (-0.5,) * 8
    for frames in (2 * len(groups), 2 * len(groups) - 6, 101):  # 101 ends within a group
        merged = DecodingTrace(tokens, logprobs, queries, keys, groups).alignment(frames, 100)
        whole = DecodingTrace(tokens, logprobs, queries, keys[:, groups]).alignment(frames, 100)
        assert merged.starts.tolist() == whole.starts.tolist()
        assert merged.ends.tolist() == whole.ends.tolist()
        assert merged.ends[-1] <= frames / 100
