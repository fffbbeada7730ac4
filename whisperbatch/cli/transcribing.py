"""What `whisperbatch transcribe` does: find, pass over what is done, transcribe, write."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import whisperbatch as wb
from whisperbatch.cli.screen import Screen, clock, open_screen
from whisperbatch.cli.stopping import Stop
from whisperbatch.cli.timeline import KINDS, check_plot, draw
from whisperbatch.errors import OptionError
from whisperbatch.jobs import (
    NAME,
    Event,
    Failed,
    Finished,
    Job,
    Ledger,
    WorkItem,
    digest,
    find,
    plan,
    run,
)
from whisperbatch.models import find_model, fingerprint
from whisperbatch.options import Options, resolve
from whisperbatch.types import Transcript
from whisperbatch.writers import FORMATS, SubtitleOptions, check_layout, make_folder, write


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

    @property
    def directories(self) -> list[Path]:
        """Those among the inputs."""
        return [Path(one) for one in self.inputs if os.path.isdir(one)]  # noqa: PTH112 - never raises

    @property
    def resumes(self) -> bool:
        """Whether what is done is passed over."""
        return bool(self.directories) if self.resume is None else self.resume


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
        text: whether segments are shown as text.
        root: where the ledger lies; None keeps none.
        weights: fingerprint of the model's.
    """

    tasks: tuple[WorkItem, ...]
    options: Options
    text: bool
    root: Path | None
    weights: str


def transcribe_all(wanted: Wanted) -> int:
    """Do it, and say what the command is to exit with.

    Raises:
        WhisperBatchError: nothing can be done at all.
    """
    planned = _plan(wanted)
    layout = {kind: wanted.layout.fitted(kind) for kind in FORMATS}
    arithmetic = [(k, v) for k, v in sorted(wanted.loading.items()) if "threads" not in k]

    def settings(output: Path) -> str:
        kind = output.suffix[1:]
        return digest(planned.weights, planned.options, arithmetic, layout.get(kind))

    with _ledger(planned.root) as ledger:
        job = Job(settings, ledger, anew=not wanted.resumes)
        left = [job.left(task) for task in planned.tasks]
        tally = _Tally(passed_over=left.count(None))
        screen = open_screen(
            [one if isinstance(one, WorkItem) else one.task for one in left if one],
            json_lines=wanted.json_lines,
            text=planned.text,
            quiet=wanted.quiet,
        )
        with Stop(lambda: _stopped(screen, tally, wanted, planned)), closing(screen):
            _work(wanted, planned, job, left, tally=tally, screen=screen)
    if tally.failed or not (wanted.quiet or (planned.text and not sys.stderr.isatty())):
        say(tally.summary())
    return 1 if tally.failed else 0


def _plan(wanted: Wanted) -> _Plan:
    formats = _formats(wanted)
    found = tuple(find(wanted.inputs, {f".{kind}" for kind in FORMATS}))
    if not found:
        raise OptionError(f"no recordings in {', '.join(wanted.inputs)}")
    directories = wanted.directories
    many = len(found) > 1 or bool(directories)
    if many and not formats and not wanted.json_lines:
        formats = ("txt",)
    options = _options(wanted, formats)
    output_dir = Path(wanted.output_dir) if wanted.output_dir else None
    pictures = (f"timeline.{wanted.plot}",) if wanted.plot else ()
    tasks = plan(found, (*formats, *pictures), output_dir)
    if wanted.resume and not tasks[0].outputs:
        raise OptionError("--resume has no effect where no files are written; give a --format")
    if wanted.plot:
        for task in tasks:
            if task.path is None or (task.path.exists() and not task.path.is_file()):
                raise OptionError(f"--plot: {task.source} cannot be read twice; give a file")
    root = output_dir or next(iter(directories), found[0].own or Path())
    if output_dir:
        make_folder(output_dir)
    keeps = wanted.resumes or (root / NAME).exists()
    saved = wanted.loading.get("engine") == "torch"
    return _Plan(
        tasks=tasks,
        options=options,
        text=not many and not wanted.json_lines,
        root=root if keeps and tasks[0].outputs else None,
        weights=fingerprint(find_model(wanted.model, transformers=saved)),
    )


def _work(
    wanted: Wanted,
    planned: _Plan,
    job: Job,
    left: Sequence[WorkItem | Failed | None],
    *,
    tally: "_Tally",
    screen: Screen,
) -> None:
    def write_one(made: Transcript, path: Path) -> None:
        kind = path.suffix[1:]
        if kind in KINDS:
            draw(made, path, planned.options)
        else:
            write(made, path, options=wanted.layout.fitted(kind))

    def show(event: Event) -> None:
        tally.count(event)
        screen.show(event)

    for one in left:
        if isinstance(one, Failed):
            show(one)
    tasks = [one for one in left if isinstance(one, WorkItem)]
    if not tasks:
        return
    with wb.load(wanted.model, **wanted.loading) as asr:
        tally.begin()
        ordered = not any(task.outputs for task in tasks)
        for event in run(asr, tasks, planned.options, job, write=write_one, ordered=ordered):
            show(event)


def _stopped(screen: Screen, tally: "_Tally", wanted: Wanted, planned: _Plan) -> None:
    screen.close()
    if wanted.resumes and planned.root:
        on = "; the same command goes on from here"
    elif planned.tasks[0].outputs:
        on = "; what was begun is lost, --resume would keep it"
    else:
        on = ""
    say(f"stopped: {tally.summary()}{on}")


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
    if wanted.plot:
        check_plot(wanted.plot)
    named = [one.strip().lower() for one in wanted.formats.split(",")] if wanted.formats else []
    if named == ["all"]:
        return FORMATS
    for one in named:
        if one not in FORMATS:
            raise OptionError(f"--format {one or 'nothing'} is none of {', '.join(FORMATS)}, all")
    if not named and wanted.output_dir and not wanted.plot:
        return ("txt",)
    return tuple(dict.fromkeys(named))


def _ledger(directory: Path | None) -> AbstractContextManager[Ledger | None]:
    return Ledger(directory) if directory else nullcontext()


def say(line: str) -> None:
    """To whoever looks on, apart from the text."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - a program's output
