"""All constants of whisperbatch that decide about speech, text or languages, from its source.

A constant is a module-level number or tuple of numbers with the annotation `Final`. Its meaning is
the comment beside or above the assignment.
"""

import ast
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias
from unittest import mock

import whisperbatch as wb
from benchmarks.constants import speakers
from whisperbatch.options import Options

Number: TypeAlias = int | float
LIBRARY: Final = Path(wb.__file__).parent
FOLDERS: Final = (
    *("chunking", "decoding", "diarization", "language", "second_opinion", "sections"),
    *("segmentation", "vad"),
)
NETWORKS: Final = LIBRARY / "diarization" / "networks"  # its constants are the formats of networks
FILES: Final = ("features/levels.py", "recording.py")
OPTION: Final = "options."  # the key of an option begins with it
OPTIONS: Final = Options(beam_size=1)


# Constants without a check, and why no measurement of speech could choose their value.
UNCHECKED: Final = {
    "chunking.spans.MIN_POWER": "floor of a logarithm",
    "chunking.split.ENERGY_FRAME": "resolution",
    "decoding.consensus.SHARES": "divides MAX_SILENCE",
    "decoding.consensus.MIN_ROOM": "resolution of the encoder",
    "decoding.engine_options.MIN_TEXT_TOKENS": "check of the user's input",
    "decoding.spoken_language.FIRST_SAMPLE": "cost",
    "decoding.spoken_language.IMPROBABLE": "cost",
    "decoding.spoken_language.MIN_FOREIGN": "cost",
    "decoding.spoken_language.MIN_MIXED": "no text depends on it, only notices",
    "decoding.spoken_language.MIN_SPEECH": "no text depends on it, only notices",
    "decoding.spoken_language.SAMPLE_INTERVAL": "cost",
    "decoding.spoken_language.SURE": "no text depends on it, only notices",
    "decoding.hallucinations.MIN_RUN": "cost: no text is removed before a second decoding",
    "decoding.prompts.DECODER_TOKENS": "format of Whisper",
    "decoding.prompts.GIVEN_TOKENS": "format of Whisper",
    "decoding.prompts.START_TOKENS": "format of Whisper",
    "decoding.prompts.TIMESTAMP_STEP": "format of Whisper",
    "decoding.prompts.TIMESTAMP_TOKENS": "format of Whisper",
    "decoding.row_decoder.LOOP_RATIO": "property of every loop, by a test",
    "decoding.retries.REQUEST_WORK": "cost",
    "decoding.retries.WORK_PER_CHUNK": "cost",
    "decoding.retries.WORK_PER_SECOND": "cost",
    "decoding.retries.MAX_FREE_HYPOTHESES": "cost",
    "features.levels.FRAME": "resolution",
    "features.levels.MIN_POWER": "floor of a logarithm",
    "language.code_switching.WAITING_ROWS": "latency",
    "language.detection.FRAME_MULTIPLE": "cost",
    "second_opinion.checks.SPECTRUM_FRAME": "resolution",
    "second_opinion.checks.SPECTRUM_HOP": "resolution",
    "second_opinion.checks.BAND": "band of a telephone",
    "second_opinion.stage.MAX_HELD": "latency",
    "second_opinion.stage.ENCODER_PADDING": "cost",
    "recording.GPU_WINDOW_STEP": "cost",
    "sections.division.FULL_PAUSE": "as chunking.merge.LONG_PAUSE",
    "sections.division.MAX_CHUNKS": "memory",
    "vad.in_subprocess.BATCH": "cost",
    "vad.in_subprocess.PATIENCE": "latency",
    "vad.steady_sound.FIRST_BINS": "cost",
    "vad.steady_sound.FRAMES_AT_ONCE": "cost",
    "vad.steady_sound.ROUNDING": "rounding",
    "vad.levels.FRAME": "format of Silero",
    "vad.levels.BLOCK": "cost and latency",
    "vad.levels.MIN_POWER": "floor of a logarithm",
    "vad.levels.CONTEXT_BLOCKS": "contains LEVEL_FRAMES and SMOOTHING_FRAMES",
    "vad.silero.PROBED": "any number above 1",
    "vad.silero.PLAIN_AXES": "shape of weights",
    "vad.silero.CONTEXT": "format of Silero",
    "vad.silero.CELLS": "format of Silero",
    "recording.WINDOW_STEP": "cost",
    **speakers.UNCHECKED,
    "second_opinion.regions.MIN_POWER": "as second_opinion.regions.MIN_LEVEL",
    "sections.division.MIN_LEVEL": "no text depends on it, only notices",
    "vad.steady_sound.BLOCKS_BEFORE": "cost",
    "vad.steady_sound.BLOCKS_AFTER": "cost",
    "vad.steady_sound.LONG_FRAME": "resolution",
    "vad.steady_sound.LONG_HOP": "resolution",
    "vad.steady_sound.GATE_FRAME": "resolution",
    "vad.steady_sound.QUANTILE": "not measured",
    "vad.steady_sound.NOISE_QUANTILE": "property of noise",
    "vad.steady_sound.MIN_STEADY": "measured beside the constant",
    "vad.steady_sound.MIN_GATE": "cost",
    "vad.steady_sound.MIN_POWER": "measured beside the constant",
    "vad.steady_sound.MIN_SHARE": "not measured",
    "vad.steady_sound.NEIGHBOURS": "resolution",
    "vad.steady_sound.REFERENCE_QUANTILE": "not measured",
    "vad.steady_sound.REFERENCE_STEP": "cost",
    "vad.steady_sound.PEAK_WIDTH": "resolution",
    "vad.steady_sound.LOWEST_SPEECH": "not measured",
    "vad.steady_sound.SPEECH_BAND": "band of a telephone",
    "vad.steady_sound.FLAT_BELOW": "spectrum of speech",
    "vad.steady_sound.SPEECH_MARGIN": "not measured",
    "vad.steady_sound.SMOOTHING": "resolution",
    "vad.steady_sound.MIN_GAIN": "floor of a filter",
    "vad.steady_sound.MAX_REMAINDER": "measured beside the constant",
    "decoding.repeats.SAME_SOUND": "measured beside the constant",
    "decoding.repeats.SAME_SENTENCE": "measured beside the constant",
    "decoding.repeats.EQUAL_SOUND": "measured beside `SAME_SOUND`",
    "decoding.repeats.MIN_HEARD": "7 of 160 loops over speech are taken for spoken",
    "decoding.repeats.MIN_PATTERN": "duration of a short word",
    "decoding.repeats.MAX_PATTERN": "resolution",
    "decoding.repeats.LONG": "duration of a sentence",
    "decoding.repeats.TOLERANCE": "error of the alignment",
    "decoding.repeats.PATTERNS": "cost",
    "decoding.repeats.OVERLAP": "error of the alignment",
    "decoding.repeats.MAX_LETTERS": "as audit.MAX_SUSTAINED_LETTERS",
    "decoding.repeats.MAX_CHARACTERS": "as audit.MAX_SUSTAINED_CHARACTERS",
    "decoding.repeats.MIN_WORD": "duration of a short word",
    "decoding.repeats.MIN_COVERED": "not measured",
}


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of whisperbatch.

    Attributes:
        module: name of its module, without "whisperbatch.".
        name: name of the constant.
        value: its value.
        source: the expression of the value.
        meaning: its comment; may be empty.
    """

    module: str
    name: str
    value: Number | tuple[Number, ...]
    source: str
    meaning: str

    @property
    def key(self) -> str:
        """MODULE.NAME."""
        return f"{self.module}.{self.name}"


@cache
def constants() -> dict[str, Constant]:
    """Return all constants by key, in the order of files and lines."""
    paths = [path for folder in FOLDERS for path in sorted((LIBRARY / folder).rglob("*.py"))]
    paths = [path for path in paths if NETWORKS not in path.parents]
    found = [constant for path in (*paths, *(LIBRARY / f for f in FILES)) for constant in _of(path)]
    return {constant.key: constant for constant in found}


def _of(path: Path) -> Iterator[Constant]:
    """Yield the constants of a file."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    module = _module(path)
    for node in ast.parse(source).body:
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        if ast.unparse(node.annotation).partition("[")[0] != "Final":
            continue
        value = getattr(import_module(f"whisperbatch.{module}"), node.target.id)
        if _is_number(value) or (isinstance(value, tuple) and all(map(_is_number, value))):
            meaning = _comment(lines, node.lineno - 1, node.end_lineno or node.lineno)
            source = ast.unparse(node.value) if node.value else ""
            yield Constant(module, node.target.id, value, source, meaning)


def _module(path: Path) -> str:
    return ".".join(path.relative_to(LIBRARY).with_suffix("").parts)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _comment(lines: list[str], first: int, end: int) -> str:
    """Return the comment at the end of an assignment, or else the comment lines above it."""
    _, mark, comment = lines[end - 1].partition("#")
    if mark:
        return comment.strip()
    start = first
    while start and lines[start - 1].startswith("#"):
        start -= 1
    return " ".join(line.lstrip("# ") for line in lines[start:first])


@contextmanager
def setting(key: str, value: Number | None) -> Iterator[Options]:
    """Give a constant or an option another value; yield the options of the run.

    Args:
        key: of a constant, or "options." and the name of an option.
        value: the other value; None changes nothing.
    """
    if value is None:
        yield OPTIONS
    elif key.startswith(OPTION):
        values: dict[str, Any] = {key.removeprefix(OPTION): value}
        yield replace(OPTIONS, **values)
    else:
        with _changed(constants()[key], value):
            yield OPTIONS


def shipped(key: str) -> object:
    """Return the value of a constant or of an option."""
    if key.startswith(OPTION):
        return getattr(OPTIONS, key.removeprefix(OPTION))
    return constants()[key].value


@contextmanager
def _changed(constant: Constant, value: Number) -> Iterator[None]:
    """Give a constant another value, also in the modules that import it."""
    with ExitStack() as stack:
        for module in (constant.module, *_importers(constant.module, constant.name)):
            target = import_module(f"whisperbatch.{module}")
            stack.enter_context(mock.patch.object(target, constant.name, value))
        yield


@cache
def _importers(module: str, name: str) -> tuple[str, ...]:
    """Return the modules of whisperbatch that import a name from a module."""
    return tuple(
        _module(path)
        for path in sorted(LIBRARY.rglob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
        and node.module == f"whisperbatch.{module}"
        and any(alias.name == name and alias.asname is None for alias in node.names)
    )
