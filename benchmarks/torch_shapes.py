"""PyTorch's encoder and decode step on weights of large-v3's shape, drawn at random.

python -m benchmarks.torch_shapes                                     # a GPU: batches of 1 to 128
python -m benchmarks.torch_shapes --compile --batches 1 8 32 --quantization hqq4
python -m benchmarks.torch_shapes --d-model 512 --layers 6 --heads 8 --mels 80     # base's shape

Every row is 30 s, and is given as many tokens as are asked for: what they are does not matter to
the time. Seconds of the encoder and of the decoder for a batch, tokens a second, and seconds of
recording for each second of both together. The first batch of each size warms up.
"""

import argparse
import time
from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from whisperbatch.engines.torch.engine import COMPUTE_TYPES
from whisperbatch.engines.torch.network import Network, build
from whisperbatch.engines.torch.quantization import GROUP_SIZE, GROUP_SIZES
from whisperbatch.engines.torch.steps import Likeliest, Reading

FRAMES = 3000  # of a row
SECONDS = 30  # likewise
MOST = 448  # positions of the decoder
PROMPT = (50258, 50259, 50360, 50364)


class Drawn(Mapping[str, npt.NDArray[Any]]):
    """Arrays by CTranslate2's names, drawn when they are asked for."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        size, self._heads = chosen.d_model, chosen.heads
        self._shapes: dict[str, tuple[int, ...]] = {
            "encoder/conv1/weight": (size, chosen.mels, 3),
            "encoder/conv1/bias": (size,),
            "encoder/conv2/weight": (size, size, 3),
            "encoder/conv2/bias": (size,),
            "encoder/position_encodings/encodings": (FRAMES // 2, size),
            "decoder/position_encodings/encodings": (MOST, size),
            "decoder/embeddings/weight": (chosen.vocabulary, size),
        }
        for part in ("encoder", "decoder"):
            self._norm(f"{part}/layer_norm", size)
            self._shapes[f"{part}/num_heads"] = ()
            for layer in range(chosen.layers):
                self._layer(f"{part}/layer_{layer}", size, crossed=part == "decoder")

    def _norm(self, name: str, size: int) -> None:
        self._shapes |= {f"{name}/{one}": (size,) for one in ("gamma", "beta")}

    def _linear(self, name: str, size: int, out: int) -> None:
        self._shapes |= {f"{name}/weight": (out, size), f"{name}/bias": (out,)}

    def _layer(self, name: str, size: int, *, crossed: bool) -> None:
        attentions = [("self_attention", (3, 1)), ("attention", (1, 2, 1))]
        for kind, stacked in attentions[: 1 + crossed]:
            self._norm(f"{name}/{kind}/layer_norm", size)
            for number, times in enumerate(stacked):
                self._linear(f"{name}/{kind}/linear_{number}", size, times * size)
        self._norm(f"{name}/ffn/layer_norm", size)
        self._linear(f"{name}/ffn/linear_0", size, 4 * size)
        self._linear(f"{name}/ffn/linear_1", 4 * size, size)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        shape = self._shapes[name]
        if not shape:
            return np.array(self._heads, np.int16)
        drawn = np.random.default_rng(len(name)).standard_normal(shape, np.float32)
        found: npt.NDArray[Any] = (drawn / shape[-1] ** 0.5).astype(np.float16)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)


class Watch:
    """Seconds that a block took on a device, in `seconds`."""

    def __init__(self, device: torch.device) -> None:
        self._wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
        self.seconds = 0.0

    def __enter__(self) -> Self:
        self._wait()
        self.seconds = -time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._wait()
        self.seconds += time.perf_counter()


def decode(network: Network, output: torch.Tensor, beams: int, tokens: int) -> None:
    """As many tokens for every row, whatever is likely."""
    rows = len(output)
    sequences = network.sequences(output, beams=beams, most=len(PROMPT) + tokens)
    reading = Reading(sequences, network.logits, [], Likeliest(2 * beams))
    reading.first(np.array([PROMPT] * rows), 0)
    sources = np.zeros((rows, beams), np.int64)
    for step in range(tokens - 1):
        reading(np.full((rows, beams), 1000 + step), sources, range(rows))
        sources = np.tile(np.arange(beams), (rows, 1))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compute-type", default="bfloat16", choices=COMPUTE_TYPES)
    parser.add_argument("--quantization", choices=["hqq4", "int8"])
    parser.add_argument("--group-size", type=int, choices=GROUP_SIZES, default=GROUP_SIZE)
    parser.add_argument("--compile", action="store_true", help="for CUDA")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64, 128])
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=100, help="of each row")
    parser.add_argument("--rounds", type=int, default=3, help="of which the quickest counts")
    for name, value in (("layers", 32), ("d-model", 1280), ("heads", 20), ("mels", 128)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--vocabulary", type=int, default=51866)
    chosen = parser.parse_args()
    device = torch.device(chosen.device)
    network = build(
        Drawn(chosen),
        dtype=COMPUTE_TYPES[chosen.compute_type],
        device=device,
        compiled=chosen.compile,
        quantization=chosen.quantization,
        group_size=chosen.group_size,
    )
    held = sum(one.numel() * one.element_size() for one in network.decoder.buffers())
    print(f"decoder: {held / 1e6:.1f} MB")
    print(f"{'batch':>6}{'encoder s':>11}{'decoder s':>11}{'tokens/s':>10}{'real time':>11}")
    with torch.inference_mode():
        for rows in chosen.batches:
            given = torch.zeros(rows, chosen.mels, FRAMES, device=device)
            best = [float("inf")] * 2
            for _ in range(chosen.rounds + 1):
                with Watch(device) as heard:
                    output = network.encode(given)
                with Watch(device) as said:
                    decode(network, output, chosen.beams, chosen.tokens)
                best = [min(best[0], heard.seconds), min(best[1], said.seconds)]
            rate = rows * chosen.tokens / best[1]
            times = rows * SECONDS / sum(best)
            print(f"{rows:6}{best[0]:11.3f}{best[1]:11.3f}{rate:10.0f}{times:11.1f}", flush=True)


if __name__ == "__main__":
    main()
