"""What changes in an embedding of CAM++ with the sound of the recording, not with the voice.

Embeddings of two men on a telephone have cosine similarities up to 0.93. Embeddings of one man, on
a telephone and in a studio, have 0.65. Without the mean of all voices, and without the four
directions in which embeddings change most from sound to sound, the limit for one voice is the same
in all sounds (nuisance attribute projection, Solomonoff et al. 2005,
https://doi.org/10.1109/ICASSP.2005.1415190).

The values at the end are written by `python -m benchmarks.diarization.known_voices --write`, which
also measures them: at the limit, 0.05 % of the pairs of different persons have one name.
"""

import base64
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Vectors: TypeAlias = npt.NDArray[np.float32]

LENGTH: Final = 192  # of an embedding


@dataclass(frozen=True, slots=True, eq=False)
class Directions:
    """What embeddings have in common, and how they change with the sound.

    Attributes:
        mean: embedding of all voices and sounds, shape (n_dimensions,).
        axes: directions of length 1, orthogonal, shape (n_directions, n_dimensions).
    """

    mean: Vectors
    axes: Vectors

    def similarity(self, one: Vectors, other: Vectors) -> float:
        """Return the cosine similarity of two voices, without the sound of their recordings."""
        first, second = self._voice(one), self._voice(other)
        lengths = np.linalg.norm(first) * np.linalg.norm(second)
        return float(first @ second / max(float(lengths), 1e-9))

    def _voice(self, embedding: Vectors) -> Vectors:
        centred = embedding - self.mean
        return (centred - (centred @ self.axes.T) @ self.axes).astype(np.float32)


@cache
def measured() -> Directions:
    """Return the directions for the built-in embedding network."""
    values = np.frombuffer(base64.b64decode(_VALUES), "<f2").astype(np.float32)
    rows = values.reshape(-1, LENGTH)
    return Directions(rows[0], rows[1:])


SAME_VOICE: Final = 0.63
FORM: Final = "plain"
_VALUES: Final = (
    "xazrq50gGq6BrTeb9qkBKl6jd6pxrUeSUKshphgsVDAFoTgnqyqMqJMunCSQoLgkOaT2qMeoTS2wqw8F95o2qoWk"
    "zqqiolmdxLBOrGks56UJKWsonqzdIswjeSKjqikVuiz+JhGmIqsBpVafMQ1BKDcvt6nwpxCpjqMJKEQof6iaIVgr"
    "VKSFo6QlQazQI1AqcqI7JjaqYCTfJt4oFqS0JD0gPymfJjoqZCzaK78orqCDrSqrKaQZKHUdNCkprBEtxyavqsgk"
    "VqJCJV2rASoDKc0qXyxdJE6GHK3UnWwrKK2cIISgUhxqK6Mpii3OJqil76xFJFAhAqVvqIWau6jiIX+WpyBDlzal"
    "IKXFqFsoCaIrqE+p7aMaLEykiSVfkVIwtB8qp9onKKtgGuqsa5MisHGqeCyrpwCmdh9AphmpuSObiomsRajBJv6i"
    "qKG0mseSEyaQIc8rHiNfFU4syqWZH60qQSVxrCysD6e2K6snBxy/pDGqH5wSpqooWCM8qXQpsKyJHc8v3KmQK9Wr"
    "AijYLFKqsCNAp6Yyai1/HiKrPa8hpCWsvirNK1YslCBpLNQwZaq0pKGml7CgLwUxkqGhLzIcsawRnR4kkK5rpHEu"
    "OSy9oNmc6KwZKfscYaMirHQoRasdo7Mu4ysjrC2sFSN9KlSsRCgaJuysmKjqJjcqlyYsqt2Ypa6gpictnS4Mr0Yr"
    "tJ4tHnKpbC4opJihf5tZIbiuGi73Jk8oJbDxqeQzAi9JrRcjY61UqXuu7imHmXWpbSvvLmUorSRQI+unoa0mq94s"
    "0a7qHSkwmxt7LDOtQCbvLtupDKWloPubzqkMGR0tC6SxsFem4qrRqSCtXyytrkQrX6TdonsmiS2kKn6pzDC1nemv"
    "LqdQqyckGKOEI2eoi6UmrX4sAC/Zq0Qt+6hqJHch+K8tr/WrwqaqLeElD6zHLvAuOyjxLi8pBy4psDgkNB5iLdkr"
    "yLEHIKKp56EMIFUofSyklvYsWiovpaWvGS8iIjgtdxc1qAowMy5pK40sVqxNLQ+w+SzUrKynl69CI8iqeCU/JGmo"
    "B5oFpMKo3rAEqA6XLaAyqhUuTi5dKNSq96yBLWYUKCtlqgcozCsELosmqauBLu0tNymesB+wHyxsLbMcVyixrFmp"
    "uae0rfISRBtrrkSqdCE6rKEwtqx3Ma4v9yimqHuvsioQpt+tzKtmpqysmq76r7spM62DqIqvJy0JLgiw5DBQrckt"
    "lB4TKZmjUCwosM0lpitbKuEuOawNMECwIZ/ppCitiCnRLBytXi3bqFGujp8aHjateyzULDsowyBFIxCrWCuCquKr"
    "+awGq7Iljq0rJz6mZ6nXqHKsRKJpLhku+yBzqJEcGafvLDKnZi8XpyckdSkesA0nn6zVrPuwHanqIFSioyjtpEAh"
    "YasdqPAvQytkKVmufKsUJSss0yWiMoOpcC1VI9esQ7HPKxko/CqDr2grVqz7rKmIS6zGKw0u8qyMqeaoeyXdr8Ac"
    "2KUWLNEt8yT9KRsuHRXCLYyeRqU1J3iqkSsSIxseZrRoIeCs2yZsrjOmQ6x9LOEsoLALLNYk4alHqD0nWCpJLnWs"
    "qigAqOYvnayznIavta0rHKcqDiyLrYspzqCRMKmsPi3mra4qKaqqqaIgO6gmpwKtSSlzLNKsAK1VLACrd6+DqcSt"
    "+ia9ImaqwSDbpv4sdCw4I88p5yWPpcYlABpUMDouYqferJmgLKrFJ3KxZrBGrSupaB16KdygP7AUqbSsZSPwpYeq"
    "K6yUsKmqXiTtqOSl66Jdr3ssiSreqI+rvSFkKLCpLifdIWApFZjHLAipyi8Ln6criChnKtSq8CZ+rSwo06pdJSYw"
    "qqJDpf8iEqqUqaCswCzmIDWodybJMGesX616LOqptqmOIDEzHi3SqTsuXrAcqT6daih9JgijUa6Npt8vSSrPKyuj"
    "HKwAsOWr3KylH/MmHCp3sN0roaX9qEMoLatMMPCpOS8IKlugIqVcnYGgUSzWrHsmQq03HreuIyzdJNoZMhJbJ3ul"
    "aS5kra8ryxz6sqMtZq5VLLIteCzypB8tg600qWspMy+XsasX/6i4JVewByNyrXamCzBKrAErMiiIrYUoNSZCFDIn"
    "6yKKqQ+pwCrlqZGrqyYBKcQuP6kWoAawYZ7aISCe4q/QkYmoeSgzrS+nPyihrIoq/K+GIzEnSKGpsa6wkaf0LSkr"
    "wqvgKGavxSWLL4cf8KJOpMCmuS3IoB2qJSl/L1Ov469jo7kh7bEhoOgiFqSgIIerlqr+nr+oMStLqUwuCLCVoNau"
    "uiuzrf0qNCiBq6IsX6N8rfiwKirWon2qHi6nrrmn1ielLTAo0C/drqUoQ5k+rCKaPCyGLeMxGByPLCKwXbDNDC+f"
    "pRvPrCapzKYTGQglOisxpDMtOzNLKTqs46ono9eva6yMlRKlmyfLMN8gJCThqfwqiSShsdQuka22kS6tZBwlrY8l"
    "GRclLMOpfKqNJgSoLadppxcpT6lxLBWeiS2dpwOl9apdIE2sVxoTLwilGS2arQ8vxyyPrcuoEjE8KRIwdx2DoE6p"
    "6qnIJeyn"
)
