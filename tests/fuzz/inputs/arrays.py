"""Arrays as sources: odd types, shapes, strides, levels and sampling rates."""

from collections.abc import Callable
from random import Random
from typing import Any, Final

import numpy as np

from tests.fuzz.cases import Environment
from tests.fuzz.inputs.containers import speech
from tests.fuzz.inputs.sources import GivenSource
from whisperbatch.types import Audio

Array = Any  # any dtype and shape, which the types of numpy cannot say

DTYPES: Final = (
    *("float16", "float32", "float64", ">f4", "int8", "uint8", "int16", ">i2", "uint16", "int32"),
    *("int64", "bool", "complex64", "object", "U4", "S4", "datetime64[s]", "longdouble"),
    "f4,i2",
)

RATES: Final = (
    *(8_000, 16_000, 44_100, 48_000, 1_000, 768_000, 999, 768_001, 0, -1, 10**30, 10**5000, 11_025),
    *(16_000.0, float("nan"), "16000", None, True, np.int64(16_000), np.float32(16_000), [16_000]),
)


def _unaligned(samples: Array) -> Array:
    fields = np.zeros(len(samples), [("gap", "u1"), ("samples", samples.dtype)])
    fields["samples"] = samples
    return fields["samples"]


SHAPES: Final[dict[str, Callable[[Array], Array]]] = {
    "empty": lambda a: a[:0],
    "one sample": lambda a: a[:1],
    "two samples": lambda a: a[:2],
    "100 samples": lambda a: a[:100],
    "column": lambda a: a[:, None],
    "row": lambda a: a[None],
    "stereo": lambda a: np.stack([a, a], 1),
    "planar stereo": lambda a: np.stack([a, a]),
    "no dimension": lambda a: np.array(a[0]),
    "reversed": lambda a: a[::-1],
    "every second": lambda a: a[::2],
    "column of a matrix": lambda a: np.stack([a, a], 1)[:, 0],
    "broadcast": lambda a: np.broadcast_to(a[:1], (16_000,)),
    "read-only": lambda a: np.broadcast_to(a, a.shape),
    "matrix": np.asmatrix,
    "masked": lambda a: np.ma.masked_array(a, mask=np.arange(len(a)) % 7 == 0),
    "unaligned": _unaligned,
    "list": lambda a: a[:1000].tolist(),
}

LEVELS: Final[dict[str, Callable[[Array], Array]]] = {
    "int16 range": lambda a: a * 32_768,
    "1e30": lambda a: a * np.float32(1e30),
    "denormal": lambda a: a * np.float32(1e-42),
    "one NaN": lambda a: _with(a, np.nan),
    "one infinite": lambda a: _with(a, -np.inf),
    "largest": lambda a: _with(a, float(np.finfo(np.float32).max)),
    "silence": lambda a: a * 0,
    "constant": lambda a: a * 0 + 1,
    "offset": lambda a: a + 100,
    "noise": lambda a: np.random.default_rng(len(a)).standard_normal(len(a)).astype(np.float32),
    "clipped": lambda a: np.clip(a * 1000, -1, 1),
}


def _with(samples: Array, value: float) -> Array:
    changed = samples.copy()
    changed[len(changed) // 2] = value
    return changed


def give_array(random: Random, env: Environment) -> GivenSource:
    """Return an array or an `Audio`; half of the values have only one fault."""
    samples: Array = speech(random, random.uniform(0.3, 4))
    text = []
    for name in random.sample(("level", "dtype", "shape"), random.choice((0, 1, 1, 1, 2, 3))):
        if name == "level":
            value = random.choice(tuple(LEVELS))
            samples = _numbers(samples) if samples.dtype.kind != "f" else samples
            samples = LEVELS[value](samples)
        elif name == "dtype":
            value = random.choice(("int16", "float32", *DTYPES))
            samples = _converted(samples, value)
        else:
            value = random.choice(tuple(SHAPES))
            samples = SHAPES[value](samples)
        text.append(value)
        if not isinstance(samples, np.ndarray) or samples.ndim != 1 or not len(samples):
            break
    if random.random() < 0.5:
        samples, rate = Audio(samples, random.choice(RATES)), "Audio"  # type: ignore[arg-type]
        text.append(f"Audio of {str(samples.sampling_rate)[:9]!r} Hz" if _short(samples) else rate)
    kind = f"array: {', '.join(text) or 'float32'}"
    env.note(f"source: {kind}")
    return GivenSource(samples, kind)


def _short(audio: Audio) -> bool:
    rate: object = audio.sampling_rate
    return not isinstance(rate, int) or rate < 10**30


def _numbers(samples: Array) -> Array:
    return np.linspace(-1, 1, len(samples), dtype=np.float32)


def _converted(samples: Array, dtype: str) -> Array:
    if np.dtype(dtype).kind in "iu":
        return (samples.astype(np.float64) * np.iinfo(dtype).max).astype(dtype)
    if np.dtype(dtype).kind in "fcO":
        return samples.astype(dtype)
    return np.zeros(len(samples), dtype)
