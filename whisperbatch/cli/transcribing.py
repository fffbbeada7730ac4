"""What `whisperbatch transcribe` does: find, pass over what is done, transcribe, write."""

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from whisperbatch import api
from whisperbatch.cli.screen import clock, open_screen
from whisperbatch.cli.stopping import Stop
from whisperbatch.errors import OptionError, WriteError
from whisperbatch.jobs.finding import Task, find, plan
from whisperbatch.jobs.job import Event, Failed, Finished, is_finished, run, settings
from whisperbatch.jobs.ledger import Ledger
from whisperbatch.keywords import resolve
from whisperbatch.models import find_model
from whisperbatch.options import Options
from whisperbatch.timeline import KINDS, draw
from whisperbatch.types import Transcript
from whisperbatch.weights import fingerprint
from whisperbatch.writers import FORMATS, SubtitleOptions, check_layout, write

HOW_TO_GO_ON: Final = {
    True: "the same command goes on from here",
    False: "what was begun is lost; --resume would keep it",
}
"""By whether there is a ledger."""


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

    passed_over: int
    transcripts: int = 0
    failed: int = 0
    seconds: float = 0.0  # of recordings
    begun: float | None = None

    def begin(self) -> None:
        self.begun = time.monotonic()

    def count(self, event: Event) -> None:
        if isinstance(event, Finished):
            self.transcripts += 1
            self.seconds += event.transcript.duration
        elif isinstance(event, Failed):
            self.failed += 1

    def summary(self) -> str:
        """On one line."""
        parts = [f"{self.transcripts} transcribed"]
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{self.passed_over} done before"] if self.passed_over else []
        said = ", ".join(parts)
        if not self.seconds or self.begun is None:
            return said
        took = time.monotonic() - self.begun
        speed = f"{self.seconds / took:.0f} times real time"
        return f"{said}: {clock(self.seconds)} in {clock(took)}, {speed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What is to be done.

    Attributes:
        tasks: all recordings and their outputs.
        options: of the decoding.
        formats: of the files.
        settings: what the files depend on, beside the recordings.
        text: whether segments are shown as text.
        root: where the ledger lies; None keeps none.
    """

    tasks: tuple[Task, ...]
    options: Options
    formats: tuple[str, ...]
    settings: str
    text: bool
    root: Path | None


def transcribe_all(wanted: Wanted) -> int:
    """Do it, and say what the command is to exit with.

    Raises:
        WhisperBatchError: nothing can be done at all.
    """
    planned = _plan(wanted)
    with _ledger(planned.root) as ledger:
        tasks = [
            task
            for task in planned.tasks
            if not (ledger and is_finished(task, ledger, planned.settings))
        ]
        tally = _Tally(passed_over=len(planned.tasks) - len(tasks))
        if tasks:
            _work(wanted, planned, tasks, ledger, tally)
    if not planned.text or sys.stderr.isatty():
        say(tally.summary())
    return 1 if tally.failed else 0


def _plan(wanted: Wanted) -> _Plan:
    formats = _formats(wanted)
    found = tuple(find(wanted.inputs))
    if not found:
        raise OptionError(f"no recordings in {', '.join(wanted.inputs)}")
    directories = [Path(one) for one in wanted.inputs if Path(one).is_dir()]
    many = len(found) > 1 or bool(directories)
    if many and not formats and not wanted.json_lines:
        formats = ("txt",)
    options = _options(wanted, formats)
    output_dir = Path(wanted.output_dir) if wanted.output_dir else None
    tasks = plan(found, (*formats, *filter(None, [wanted.plot])), output_dir)
    root = None
    if bool(directories) if wanted.resume is None else wanted.resume:
        root = output_dir or next(iter(directories), found[0].own or Path())
    return _Plan(
        tasks=tasks,
        options=options,
        formats=formats,
        settings=settings(fingerprint(find_model(wanted.model)), options, formats, wanted.layout),
        text=not many and not wanted.json_lines,
        root=root if any(task.outputs for task in tasks) else None,
    )


def _work(
    wanted: Wanted, planned: _Plan, tasks: Sequence[Task], ledger: Ledger | None, tally: _Tally
) -> None:
    screen = open_screen(tasks, json_lines=wanted.json_lines, text=planned.text, quiet=wanted.quiet)

    def stopped() -> None:
        screen.close()
        say(f"stopped: {tally.summary()}; {HOW_TO_GO_ON[ledger is not None]}")

    def write_one(made: Transcript, path: Path) -> None:
        kind = path.suffix[1:]
        if kind in KINDS:
            draw(made, path, planned.options)
            return
        with stop.held():
            write(made, path, options=wanted.layout.fitted(kind))

    with Stop(stopped) as stop, api.load(wanted.model, **wanted.loading) as asr, closing(screen):
        tally.begin()
        for event in run(
            asr,
            tasks,
            planned.options,
            write=write_one,
            ledger=ledger,
            settings=planned.settings,
            ordered=not any(task.outputs for task in tasks),
        ):
            tally.count(event)
            screen.show(event)


def _options(wanted: Wanted, formats: Sequence[str]) -> Options:
    """Of the decoding; words have times where the layout of the files needs them."""
    check_layout(wanted.layout, formats)
    given = dict(wanted.options)
    if wanted.layout.needs_words:
        given.setdefault("word_timestamps", True)
    options = resolve(None, **given)
    if wanted.layout.needs_words and not options.word_timestamps:
        raise OptionError(f"{wanted.layout.needs_words[0]} has no effect without word_timestamps")
    return options


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


def _ledger(directory: Path | None) -> AbstractContextManager[Ledger | None]:
    if directory is None:
        return nullcontext()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(f"{directory}: cannot be made: {error.strerror or error}") from error
    return Ledger(directory)


def say(line: str) -> None:
    """To whoever looks on, apart from the text."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - a program's output
