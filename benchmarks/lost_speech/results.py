"""Results of single recordings, kept on disk, so that a stopped or repeated run continues.

A result is used again only if the same code would compute it again. Its key contains the recording,
the system, the model, the options, the versions of the packages, and digests of the code that
builds and scores recordings and, for whisperbatch, of whisperbatch.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import whisperbatch as wb
from benchmarks.measures import Accuracy
from benchmarks.scoring import Score
from benchmarks.systems import OURS
from whisperbatch.models.registry import find_model

PACKAGES: Final = ("faster-whisper", "ctranslate2", "numpy", "whisper-normalizer", "jiwer")
# Files of benchmarks/ that change neither a recording nor its scores.
UNRELATED: Final = ("__main__.py", "bootstrap.py", "report.py", "results.py", "calibration.py")
RELATED: Final = (
    *("clips.py", "corpora.py", "measures.py", "recordings.py", "scoring.py", "sounds.py"),
    *("speech.py", "systems.py"),
)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a system on a recording.

    Attributes:
        accuracy: the measurements.
        text: the whole text.
        counts: further numbers that the system reports.
    """

    accuracy: Accuracy
    text: str
    counts: Mapping[str, float] = field(default_factory=dict)


class Results:
    """The results in a directory: one JSON file each."""

    def __init__(self, directory: Path, model: str, options: Mapping[str, Any]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._common = {
            "model": [model, (find_model(model) / "model.bin").stat().st_size],
            "packages": {name: version(name) for name in PACKAGES},
            "benchmark": _benchmark_digest(),
        }
        self._options = {name: repr(value) for name, value in options.items()}

    def path(self, recording: str, system: str) -> Path:
        """Return the file of a result, which need not exist."""
        key = {**self._common, "recording": recording, "system": system}
        if system.startswith(OURS):
            key |= {"options": self._options, "code": _library_digest()}
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
        name = f"{recording.replace(':', '-')}.{system}"
        return self._directory / f"{name}.{digest[:16]}.json"

    def load(self, recording: str, system: str) -> Result | None:
        """Return a result that was saved before, or None."""
        try:
            value = json.loads(self.path(recording, system).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        measured = value["accuracy"]
        for name in ("words", "characters"):
            measured[name] = Score(**measured[name])
        measured["starts"] = tuple(measured["starts"])
        return Result(Accuracy(**measured), value["text"], value["counts"])

    def save(self, recording: str, system: str, result: Result) -> None:
        """Save a result: the file has all of it, or does not exist."""
        path = self.path(recording, system)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=self._directory, delete=False
        ) as file:
            json.dump(asdict(result), file, ensure_ascii=False)
        os.replace(file.name, path)  # noqa: PTH105 - the name of the temporary file is a str


@cache
def _benchmark_digest() -> str:
    folder = Path(__file__).parent
    related = [path for path in folder.glob("*.py") if path.name not in UNRELATED]
    return digest([*related, *(folder.parent / name for name in RELATED)])


@cache
def _library_digest() -> str:
    return digest(Path(wb.__file__).parent.rglob("*.py"))


def digest(paths: Iterable[Path]) -> str:
    """Return a digest of the contents of files, in the order of their paths."""
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()
