"""Time PyTorch's encoder and decoder with random weights of large-v3's shape.

python -m benchmarks.torch_shapes                                     # a GPU: batches of 1 to 128
python -m benchmarks.torch_shapes --compile --batches 1 8 32 --quantization hqq4
python -m benchmarks.torch_shapes --d-model 512 --layers 6 --heads 8 --mels 80     # base's shape

Every row has 30 s of features and gets `--tokens` fixed tokens: the time does not depend on which
tokens they are. The table shows the seconds of the encoder and of the decoder for a batch, the
tokens per second, and the seconds of audio per second of encoder and decoder together. The first
batch of each size warms up.
"""

import argparse
import time
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import torch
from typing_extensions import Self

from whisperbatch.engines.settings import GROUP_SIZE, GroupSize
from whisperbatch.engines.torch.decoding import DecodingSteps, TopTokens
from whisperbatch.engines.torch.engine import COMPUTE_TYPES
from whisperbatch.engines.torch.network import Network, build_network

FRAMES = 3000  # feature frames of a row
SECONDS = 30  # audio of a row
POSITIONS = 448  # of the decoder
PROMPT = (50258, 50259, 50360, 50364)


class RandomArrays(Mapping[str, npt.NDArray[Any]]):
    """Random arrays by CTranslate2's names; each access draws the array."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        size, self._heads = arguments.d_model, arguments.heads
        self._shapes: dict[str, tuple[int, ...]] = {
            "encoder/conv1/weight": (size, arguments.mels, 3),
            "encoder/conv1/bias": (size,),
            "encoder/conv2/weight": (size, size, 3),
            "encoder/conv2/bias": (size,),
            "encoder/position_encodings/encodings": (FRAMES // 2, size),
            "decoder/position_encodings/encodings": (POSITIONS, size),
            "decoder/embeddings/weight": (arguments.vocabulary, size),
        }
        for part in ("encoder", "decoder"):
            self._norm(f"{part}/layer_norm", size)
            self._shapes[f"{part}/num_heads"] = ()
            for layer in range(arguments.layers):
                name = f"{part}/layer_{layer}"
                self._layer(name, size, has_cross_attention=part == "decoder")

    def _norm(self, name: str, size: int) -> None:
        self._shapes |= {f"{name}/{kind}": (size,) for kind in ("gamma", "beta")}

    def _linear(self, name: str, size: int, out: int) -> None:
        self._shapes |= {f"{name}/weight": (out, size), f"{name}/bias": (out,)}

    def _layer(self, name: str, size: int, *, has_cross_attention: bool) -> None:
        # kind, and for each of its linear layers the number of matrices that are stacked in it
        attentions = [("self_attention", (3, 1)), ("attention", (1, 2, 1))]
        for kind, stacked_counts in attentions[: 1 + has_cross_attention]:
            self._norm(f"{name}/{kind}/layer_norm", size)
            for number, stacked in enumerate(stacked_counts):
                self._linear(f"{name}/{kind}/linear_{number}", size, stacked * size)
        self._norm(f"{name}/ffn/layer_norm", size)
        self._linear(f"{name}/ffn/linear_0", size, 4 * size)
        self._linear(f"{name}/ffn/linear_1", 4 * size, size)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        shape = self._shapes[name]
        if not shape:
            return np.array(self._heads, np.int16)
        values = np.random.default_rng(len(name)).standard_normal(shape, np.float32)
        array: npt.NDArray[Any] = (values / shape[-1] ** 0.5).astype(np.float16)
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)


class Timer:
    """Context manager that measures the `seconds` of its block on a device."""

    def __init__(self, device: torch.device) -> None:
        self._synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
        self.seconds = 0.0

    def __enter__(self) -> Self:
        self._synchronize()
        self.seconds = -time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._synchronize()
        self.seconds += time.perf_counter()


def decode(network: Network, encoder_output: torch.Tensor, beams: int, tokens: int) -> None:
    """Decode a fixed number of fixed tokens for every row."""
    rows = len(encoder_output)
    kv_cache = network.kv_cache(encoder_output, beams=beams, max_length=len(PROMPT) + tokens)
    step = DecodingSteps(kv_cache, network.logits, [], TopTokens(2 * beams))
    step.prefill(np.array([PROMPT] * rows), 0, 0)
    sources = np.zeros((rows, beams), np.int64)
    for number in range(tokens - 1):
        step(np.full((rows, beams), 1000 + number), sources, range(rows), [beams] * rows)
        sources = np.tile(np.arange(beams), (rows, 1))


def main() -> None:
    """Run the benchmark of the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compute-type", default="bfloat16", choices=COMPUTE_TYPES)
    parser.add_argument("--quantization", choices=["hqq4", "int8"])
    parser.add_argument("--group-size", type=int, choices=get_args(GroupSize), default=GROUP_SIZE)
    parser.add_argument("--compile", action="store_true", help="for CUDA")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64, 128])
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=100, help="tokens of each row")
    parser.add_argument("--rounds", type=int, default=3, help="the fastest round counts")
    for name, value in (("layers", 32), ("d-model", 1280), ("heads", 20), ("mels", 128)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--vocabulary", type=int, default=51866)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    network = build_network(
        RandomArrays(arguments),
        dtype=COMPUTE_TYPES[arguments.compute_type],
        device=device,
        compiled=arguments.compile,
        quantization=arguments.quantization,
        group_size=arguments.group_size,
    )
    decoder_bytes = sum(
        buffer.numel() * buffer.element_size() for buffer in network.decoder.buffers()
    )
    print(f"decoder: {decoder_bytes / 1e6:.1f} MB")
    print(f"{'batch':>6}{'encoder s':>11}{'decoder s':>11}{'tokens/s':>10}{'real time':>11}")
    with torch.inference_mode():
        for rows in arguments.batches:
            features = torch.zeros(rows, arguments.mels, FRAMES, device=device)
            encoder_seconds = decoder_seconds = float("inf")
            for _ in range(arguments.rounds + 1):
                with Timer(device) as timer:
                    encoder_output = network.encode(features)
                encoder_seconds = min(encoder_seconds, timer.seconds)
                with Timer(device) as timer:
                    decode(network, encoder_output, arguments.beams, arguments.tokens)
                decoder_seconds = min(decoder_seconds, timer.seconds)
            tokens_per_second = rows * arguments.tokens / decoder_seconds
            speed = rows * SECONDS / (encoder_seconds + decoder_seconds)
            print(
                f"{rows:6}{encoder_seconds:11.3f}{decoder_seconds:11.3f}"
                f"{tokens_per_second:10.0f}{speed:11.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
