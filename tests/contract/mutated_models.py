"""Loads damaged copies of a tiny model, and decodes one second: a program, because it may crash.

    python -m tests.contract.mutated_models DIRECTORY ENGINE FIRST LAST

DIRECTORY holds an undamaged model. Each number from FIRST to LAST - 1 is the seed of one damage. A
line with the number and the damage is written before the model is loaded, and then its result:
"decoded" or the type and message of the error.
"""

import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from tests.contract.engines import load_exact, requests_for
from whisperbatch import Options
from whisperbatch.features import feature_extractor
from whisperbatch.models.model_bin import read_headers
from whisperbatch.protocols import Encoded, Engine

FILES: Final = (
    *("model.bin", "model.safetensors"),
    *("config.json", "generation_config.json", "tokenizer.json", "vocabulary.json"),
)
"""The files of both formats that are damaged, if they exist."""

BEFORE_DATA: Final = 60  # bytes of a header of model.bin
FIRST_BYTES: Final = 40_000  # the JSON files without the padding of the vocabulary; most headers


def flip(data: bytearray, place: int, generator: random.Random) -> None:
    for _ in range(generator.randint(1, 4)):
        data[min(place + generator.randrange(8), len(data) - 1)] ^= 1 << generator.randrange(8)


def truncate(data: bytearray, place: int, generator: random.Random) -> None:
    del data[place:]


def duplicate(data: bytearray, place: int, generator: random.Random) -> None:
    data[place:place] = data[place : place + generator.randrange(1, 200)]


def remove(data: bytearray, place: int, generator: random.Random) -> None:
    del data[place : place + generator.randrange(1, 200)]


def set_digit(data: bytearray, place: int, generator: random.Random) -> None:
    """Change a digit or insert a sign: the result is often valid JSON with another number."""
    digits = [at for at in range(place, min(place + 400, len(data))) if chr(data[at]).isdigit()]
    if digits:
        at = generator.choice(digits)
        data[at : at + 1] = generator.choice([b"9", b"0", b"-1", b"999999", b"1.5", b"null", b"[]"])
    else:
        flip(data, place, generator)


DAMAGES: Final[Mapping[str, Callable[[bytearray, int, random.Random], None]]] = {
    "flip": flip,
    "truncate": truncate,
    "duplicate": duplicate,
    "remove": remove,
    "set digit": set_digit,
}


def damage(directory: Path, seed: int) -> str:
    """Damage one file; most places in model.bin are in headers."""
    generator = random.Random(seed)  # noqa: S311 - repeatable
    path = directory / generator.choice([name for name in FILES if (directory / name).exists()])
    data = bytearray(path.read_bytes())
    place = generator.randrange(min(len(data), FIRST_BYTES))
    name = generator.choice(list(DAMAGES))
    if path.name == "model.bin":
        header = generator.choice(list(read_headers(path).values()))
        place = max(header.offset + generator.randrange(-BEFORE_DATA, BEFORE_DATA // 3), 0)
        name = "flip" if name == "set digit" else name
    DAMAGES[name](data, place, generator)
    path.unlink()
    path.write_bytes(data)
    return f"{path.name}: {name} at {place}"


def decode(directory: Path, engine_name: str) -> str:
    """Decode one second with and without timestamp tokens, and detect its language."""
    engine = load_exact(directory, engine_name)
    encoded = encode_silence(engine)
    for timestamps in ("alignment", "tokens"):
        options = Options(timestamps=timestamps, beam_size=2, max_new_tokens=8)
        engine.decode(encoded, requests_for(engine, [100], options), options.search)
    if engine.is_multilingual:
        engine.detect_language(encoded)
    engine.close()
    return "decoded"


def encode_silence(engine: Engine) -> Encoded:
    """Return the encoder output of a batch with one second of silence."""
    extract = feature_extractor("whisper", engine.n_mels)
    return engine.encode(extract(np.zeros(16_000, np.float32))[None])


def main() -> None:
    source, engine_name, first, last = Path(sys.argv[1]), *sys.argv[2:]
    for seed in range(int(first), int(last)):
        with tempfile.TemporaryDirectory() as folder:
            directory = shutil.copytree(source, Path(folder) / "model")
            sys.stdout.write(f"{seed} {damage(directory, seed)} -> ")
            sys.stdout.flush()
            try:
                result = decode(directory, engine_name)
            except Exception as error:  # noqa: BLE001 - the test looks at the type
                result = f"{type(error).__name__}: {error!s}"
            sys.stdout.write(f"{result!r}\n")


if __name__ == "__main__":
    main()
