"""The formats of the audio that a client sends.

audio/pcm    16-bit samples, little endian, at 24 kHz; by extension at 8, 16 or 48 kHz
audio/pcmu   G.711 with the mu-law, at 8 kHz: telephones in America and Japan
audio/pcma   G.711 with the A-law, at 8 kHz: other telephones
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

PCM: Final = "audio/pcm"
MU_LAW: Final = "audio/pcmu"
A_LAW: Final = "audio/pcma"
RATES: Final = (8000, 16000, 24000, 48000)  # of PCM
TELEPHONE_RATE: Final = 8000
PIECES: Final = 4  # of a second
MU_LAW_BIAS: Final = 132
OLD_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"pcm16": PCM, "g711_ulaw": MU_LAW, "g711_alaw": A_LAW}
)
"""The names in the old generation of the protocol."""

Samples = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """A format of audio.

    Attributes:
        type: `PCM`, `MU_LAW` or `A_LAW`.
        rate: samples in a second.
    """

    type: str = PCM
    rate: int = 24_000

    @property
    def value(self) -> dict[str, Any]:
        """The format in the form of the protocol."""
        return {"type": self.type, "rate": self.rate} if self.type == PCM else {"type": self.type}

    @property
    def bytes_per_second(self) -> int:
        """Size of a second."""
        return self.rate * (2 if self.type == PCM else 1)

    def pieces(self, data: bytes) -> Iterator[bytes | Samples]:
        """Yield audio in short pieces, for `LiveSession.feed`, which holds the lock of its events.

        Args:
            data: in this format. PCM may end within a sample.
        """
        step = self.bytes_per_second // PIECES
        for start in range(0, len(data), step):
            piece = data[start : start + step]
            yield piece if self.type == PCM else _decode(piece, self.type)


def _decode(data: bytes, law: str) -> Samples:
    table = mu_law() if law == MU_LAW else a_law()
    decoded: Samples = table[np.frombuffer(data, np.uint8)]
    return decoded


@cache
def mu_law() -> Samples:
    """Return the sample of each byte of G.711's mu-law, shape (256,)."""
    code = ~np.arange(256) & 0xFF
    exponent, mantissa = code >> 4 & 7, code & 15
    size = (((mantissa << 3) + MU_LAW_BIAS) << exponent) - MU_LAW_BIAS
    return np.where(code & 0x80, -size, size).astype(np.int16)


@cache
def a_law() -> Samples:
    """Return the sample of each byte of G.711's A-law, shape (256,)."""
    code = np.arange(256) ^ 0x55
    exponent, mantissa = code >> 4 & 7, code & 15
    size = (mantissa << 4) + 8
    size = np.where(exponent > 0, (size + 256) << np.maximum(exponent - 1, 0), size)
    return np.where(code & 0x80, size, -size).astype(np.int16)
