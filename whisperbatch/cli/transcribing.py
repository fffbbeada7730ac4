"""What `whisperbatch transcribe` does: find, pass over what is done, transcribe, write."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from whisperbatch import api
from whisperbatch.cli.screen import open_screen, summary
from whisperbatch.errors import OptionError, WriteError
from whisperbatch.jobs.finding import Found, Task, find, plan
from whisperbatch.jobs.job import Event, Failed, Finished, is_finished, run, settings
from whisperbatch.jobs.ledger import Ledger
from whisperbatch.keywords import resolve
from whisperbatch.models import find_model
from whisperbatch.options import Options
from whisperbatch.timeline import KINDS, draw
from whisperbatch.types import Transcript
from whisperbatch.weights import fingerprint
from whisperbatch.writers import FORMATS, SubtitleOptions, check_layout, write

INTERRUPTED: Final = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was asked for.

    Attributes:
        inputs: files, directories, patterns, URLs, "-".
        model: its name.
        formats: of the files, with commas; "all"; empty for none that are asked for by name.
        output_dir: where to write them; empty for beside each recording.
        resume: pass over what is done; None does so where there are directories.
        plot: "png", "html", or empty.
        json_lines: write segments as JSON.
        quiet: no bars.
        layout: of subtitles.
        loading: keywords of `load`.
        options: keywords of `transcribe`.
    """

    inputs: tuple[str, ...]
    model: str
    formats: str
    output_dir: str
    resume: bool | None
    plot: str
    json_lines: bool
    quiet: bool
    layout: SubtitleOptions
    loading: Mapping[str, Any]
    options: Mapping[str, Any]


@dataclass(slots=True)
class _Tally:
    """What has become of the job so far."""

    transcripts: int = 0
    seconds: float = 0.0
    failed: int = 0

    def count(self, event: Event) -> None:
        if isinstance(event, Finished):
            self.transcripts += 1
            self.seconds += event.transcript.duration
        elif isinstance(event, Failed):
            self.failed += 1


def transcribe_all(wanted: Wanted) -> int:
    """Do it, and say what the command is to exit with.

    Raises:
        WhisperBatchError: nothing can be done at all.
    """
    options = resolve(None, **wanted.options)
    formats = _formats(wanted)
    found = tuple(find(wanted.inputs))
    if not found:
        raise OptionError(f"no recordings in {', '.join(wanted.inputs)}")
    many = len(found) > 1 or any(Path(one).is_dir() for one in wanted.inputs)
    text = not many and not wanted.json_lines
    if many and not formats and not wanted.json_lines:
        formats = ("txt",)
    check_layout(wanted.layout, formats)
    output_dir = Path(wanted.output_dir) if wanted.output_dir else None
    tasks = plan(found, formats + ((wanted.plot,) if wanted.plot else ()), output_dir)
    key = settings(fingerprint(find_model(wanted.model)), options, formats, wanted.layout)
    with ExitStack() as stack:
        ledger = None
        if _resumes(wanted) and any(task.outputs for task in tasks):
            ledger = stack.enter_context(_open_ledger(output_dir or _root(wanted.inputs, found)))
        todo = [task for task in tasks if not (ledger and is_finished(task, ledger, key))]
        return _work(wanted, options, todo, len(tasks) - len(todo), ledger, key, text=text)


def _work(
    wanted: Wanted,
    options: Options,
    tasks: Sequence[Task],
    passed_over: int,
    ledger: Ledger | None,
    key: str,
    *,
    text: bool,
) -> int:
    tally = _Tally()
    begun = time.monotonic()
    try:
        if tasks:
            with (
                api.load(wanted.model, **wanted.loading) as asr,
                open_screen(
                    tasks, json_lines=wanted.json_lines, text=text, quiet=wanted.quiet
                ) as screen,
            ):
                begun = time.monotonic()
                for event in run(
                    asr,
                    tasks,
                    options,
                    write=lambda made, path: _write(made, path, wanted, options),
                    ledger=ledger,
                    settings=key,
                    ordered=not any(task.outputs for task in tasks),
                ):
                    tally.count(event)
                    screen.show(event)
    except KeyboardInterrupt:
        _stop(tally, resumable=ledger is not None)
    elapsed = time.monotonic() - begun
    if not text or sys.stderr.isatty():
        say(summary(tally.transcripts, tally.seconds, tally.failed, passed_over, elapsed))
    return 1 if tally.failed else 0


def _formats(wanted: Wanted) -> tuple[str, ...]:
    """Of the files: those named, or text where a directory for them is."""
    if wanted.plot and wanted.plot not in KINDS:
        raise OptionError(f"--plot {wanted.plot} is none of {', '.join(KINDS)}")
    if wanted.formats == "all":
        return FORMATS
    named = tuple(one.strip().lower() for one in wanted.formats.split(",") if one.strip())
    for one in named:
        if one not in FORMATS:
            raise OptionError(f"--format {one} is none of {', '.join(FORMATS)}, all")
    if not named and wanted.output_dir and not wanted.plot:
        return ("txt",)
    return tuple(dict.fromkeys(named))


def _resumes(wanted: Wanted) -> bool:
    if wanted.resume is None:
        return any(Path(one).is_dir() for one in wanted.inputs)
    return wanted.resume


def _root(inputs: Sequence[str], found: Sequence[Found]) -> Path:
    """Where the ledger of a job lies that writes beside its recordings."""
    directories = [Path(one) for one in inputs if Path(one).is_dir()]
    return directories[0] if directories else found[0].own or Path()


def _open_ledger(directory: Path) -> Ledger:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(f"{directory}: cannot be made: {error.strerror or error}") from error
    return Ledger(directory)


def _write(made: Transcript, path: Path, wanted: Wanted, options: Options) -> None:
    if path.suffix[1:] in KINDS:
        draw(made, path, options)
    else:
        write(made, path, options=wanted.layout)


def _stop(tally: _Tally, *, resumable: bool) -> NoReturn:
    """At once: threads that are decoding are not waited for; what is written is whole."""
    on = (
        "the same command goes on from here"
        if resumable
        else "nothing is kept of what was begun; --resume keeps it"
    )
    say(f"stopped: {tally.transcripts} transcribed; {on}")
    sys.stdout.flush()
    os._exit(INTERRUPTED)


def say(line: str) -> None:
    """To whoever looks on, apart from the text."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - a program's output
