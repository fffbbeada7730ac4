"""Figures by constant, value and recording, kept on disk, so that a stopped run continues."""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Final

import whisperbatch as wb
from benchmarks.constants.figures import Check, Figures
from benchmarks.constants.inventory import Number
from benchmarks.lost_speech.results import digest

SAVE_INTERVAL: Final = 10.0  # seconds
PROGRAMS: Final = ("__main__.py", "store.py")  # these files change no figure


class Store:
    """The figures of a model. They are used again as long as no code changes.

    Args:
        directory: of the file.
        model: name of the model.
    """

    def __init__(self, directory: Path, model: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        benchmarks = Path(__file__).parents[1].rglob("*.py")
        measuring = (path for path in benchmarks if path.name not in PROGRAMS)
        code = [*Path(wb.__file__).parent.rglob("*.py"), *measuring]
        key = hashlib.sha256(f"{model} {digest(code)}".encode()).hexdigest()
        self._path = directory / f"figures.{model}.{key[:16]}.json"
        self._figures: dict[str, list[float]] = {}
        self._saved = time.monotonic()
        if self._path.is_file():
            self._figures = json.loads(self._path.read_text(encoding="utf-8"))

    def figures(
        self, check: Check, value: Number | None, name: str, measure: Callable[[], Figures]
    ) -> Figures:
        """Return the figures of a recording; `measure` computes them if they are not known."""
        # without another value, all checks of a kind measure the same
        setting = "shipped" if value is None else f"{check.key} {value}"
        key = f"{check.kind} {setting} {name}"
        if key not in self._figures:
            self._figures[key] = [float(number) for number in astuple(measure())]
            if time.monotonic() - self._saved > SAVE_INTERVAL:
                self.save()
        return Figures(*self._figures[key])

    def save(self) -> None:
        """Write all figures: the file has all of them, or does not change."""
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=self._path.parent, delete=False
        ) as file:
            json.dump(self._figures, file)
        os.replace(file.name, self._path)  # noqa: PTH105 - the name of the temporary file is a str
        self._saved = time.monotonic()
