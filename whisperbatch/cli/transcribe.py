"""The commands `whisperbatch transcribe` and `whisperbatch detect-language`.

find recordings -> skip finished outputs -> load the model -> transcribe -> write files
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

import whisperbatch as wb
from whisperbatch.cli.flags import DEFAULT_MODEL, Inputs, Model, Verbose
from whisperbatch.cli.printing import (
    ExitOnSignal,
    is_output_closed,
    loading_status,
    print_error,
    print_note,
    print_note_on_terminal,
    print_result,
)
from whisperbatch.cli.recordings import Tally, failures_if_all, find_recordings, read_overview
from whisperbatch.cli.screen import Screen, open_screen
from whisperbatch.engines.settings import settings_of
from whisperbatch.errors import OptionError, WhisperBatchError
from whisperbatch.jobs import (
    LEDGER_NAME,
    MACHINE_KEYWORDS,
    Event,
    Failed,
    FinishedElsewhere,
    Job,
    Ledger,
    WorkItem,
    digest,
    plan_outputs,
    references_fingerprint,
    run_job,
)
from whisperbatch.models import find_model, fingerprint, measured_kept_frames
from whisperbatch.options import Options, for_detection, resolve
from whisperbatch.text import LANGUAGES
from whisperbatch.types import LanguageDetection, Transcript
from whisperbatch.vad import vad_fingerprint
from whisperbatch.writers import (
    FORMATS,
    SPEAKER_FORMATS,
    SUBTITLE_FORMATS,
    TABLE_FORMATS,
    FileOptions,
    SubtitleOptions,
    TableOptions,
    check_file_options,
    check_format,
    make_folder,
    write,
)
from whisperbatch.writers.timeline import PLOT_FORMATS, check_plot, write_timeline

MAX_ALTERNATIVES: Final = 2  # languages printed after the best language
MIN_PROBABILITY: Final = 0.005  # of an alternative: less would be printed as 0 %


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscribeArguments:
    """The arguments of the command: a flag for each field, and those of the last two."""

    inputs: Inputs
    model: Model = DEFAULT_MODEL
    formats: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help=f"Write files in these formats: {', '.join(FORMATS)}; several with commas, or "
            "all. Without this flag, the text of one recording is printed, and several recordings "
            "are written as txt.",
            show_default=False,
        ),
    ] = ""
    output_dir: Annotated[
        str,
        typer.Option(
            "--output-dir",
            "-o",
            help="Write the files into this directory instead of next to each recording.",
            show_default=False,
        ),
    ] = ""
    resume: Annotated[
        bool | None,
        typer.Option(
            "--resume/--no-resume",
            help="Skip recordings that are already done with the same model and options, and "
            "continue unfinished recordings. The default for directories. --no-resume transcribes "
            "everything again and replaces existing files.",
        ),
    ] = None
    plot: Annotated[
        str,
        typer.Option(
            "--plot",
            help="Also draw a timeline of loudness, speech, chunks and segments: png or html.",
            show_default=False,
        ),
    ] = ""
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Print each segment as a line of JSON.")
    ] = False
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Print only text and errors, without progress bars."),
    ] = False
    verbose: Verbose = False
    layout: SubtitleOptions = field(default_factory=SubtitleOptions)
    tables: TableOptions = field(default_factory=TableOptions)
    load_keywords: Mapping[str, Any]
    options: Mapping[str, Any]

    @property
    def directories(self) -> list[Path]:
        """The inputs that are directories."""
        return [Path(name) for name in self.inputs if os.path.isdir(name)]  # noqa: PTH112 - Path raises for long names

    def file_options(self, name: str) -> FileOptions:
        """Return the options that have an effect on a format; other options have their defaults."""
        return (self.tables if name in TABLE_FORMATS else self.layout).fitted(name)

    @property
    def resumes(self) -> bool:
        """Whether finished recordings are skipped."""
        return bool(self.directories) if self.resume is None else self.resume


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The work of a run, before finished outputs are skipped.

    Attributes:
        items: all recordings and their outputs.
        failures: the folders that cannot be searched.
        options: of the transcription.
        text: whether the text of segments is printed.
        ledger_dir: directory of the ledger; None if the run has no ledger.
        weights: fingerprint of the model, with the share of the encoder's frames that is kept
            without `kept_frames`.
        speech_detector: fingerprint of the voice activity detector.
        references: fingerprint of the recordings of known speakers; None if one is not a file.
    """

    items: tuple[WorkItem, ...]
    failures: tuple[Failed, ...]
    options: Options
    text: bool
    ledger_dir: Path | None
    weights: str
    speech_detector: str
    references: str | None


def transcribe_all(arguments: TranscribeArguments) -> int:
    """Transcribe all recordings, and return the exit status.

    Raises:
        WhisperBatchError: an argument is invalid, or the model does not load.
    """
    plan = _plan(arguments)
    file_options = {name: arguments.file_options(name) for name in FORMATS}
    # devices and threads do not change the text
    load_keywords = [
        (name, value)
        for name, value in sorted(arguments.load_keywords.items())
        if name not in MACHINE_KEYWORDS
    ]

    def settings(output: Path) -> str | None:
        options = file_options.get(output.suffix[1:])
        if plan.references is None:
            return None
        detectors = (plan.speech_detector, plan.references)
        return digest(plan.weights, detectors, plan.options, load_keywords, options)

    again, folder = not arguments.resumes, plan.ledger_dir
    with Ledger(folder, start_again=again) if folder else nullcontext() as ledger:
        job = Job(settings, ledger, redo=again)
        job.register()
        unfinished = [job.remaining(item) for item in plan.items]
        remaining = [*plan.failures, *failures_if_all(unfinished)]
        done = [item for item, left in zip(plan.items, unfinished, strict=True) if left is None]
        incomplete = sum(not job.was_complete(item) for item in done)
        tally = Tally(already_done=len(done), incomplete=incomplete)
        screen = open_screen(
            [entry if isinstance(entry, WorkItem) else entry.item for entry in remaining if entry],
            json_lines=arguments.json_lines,
            text=plan.text,
            quiet=arguments.quiet,
        )
        say_goodbye = partial(_say_goodbye, screen, tally, arguments, plan, ledger)
        with ExitOnSignal(say_goodbye), closing(screen):
            _transcribe(arguments, plan, job, remaining, tally=tally, screen=screen)
    silent = arguments.quiet or (plan.text and not sys.stderr.isatty())
    if tally.failed or tally.incomplete or not silent:
        print_note(tally.summary())
    return 1 if tally.failed else 0


def _plan(arguments: TranscribeArguments) -> _Plan:
    formats = _formats(arguments)
    files, errors = find_recordings(arguments.inputs, {f".{name}" for name in FORMATS})
    directories = arguments.directories
    many = len(files) > 1 or bool(directories)
    if many and not formats and not arguments.json_lines:
        formats = ("txt",)
    options = _options(arguments, formats)
    _check_standard_input([file.source for file in files], options)
    output_dir = Path(arguments.output_dir) if arguments.output_dir else None
    plots = (f"timeline.{arguments.plot}",) if arguments.plot else ()
    items = plan_outputs(files, (*formats, *plots), output_dir)
    if arguments.resume and not items[0].outputs:
        raise OptionError("--resume has no effect if no files are written; add --format")
    if arguments.plot:
        _check_read_twice(items)
    ledger_dir = output_dir or next(iter(directories), files[0].directory or Path())
    if output_dir:
        make_folder(output_dir)
    # a run of files without --resume updates a ledger that exists, but creates none
    has_ledger = arguments.resumes or directories or os.path.exists(ledger_dir / LEDGER_NAME)  # noqa: PTH110 - Path raises without rights
    engine = settings_of(arguments.load_keywords)
    engine.check(options.search)
    weights = find_model(
        arguments.model, transformers=engine.reads_transformers, revision=engine.revision
    )
    return _Plan(
        items=items,
        failures=tuple(Failed(WorkItem(error.source or "", ()), error) for error in errors),
        options=options,
        text=not many and not arguments.json_lines and not (formats and is_output_closed()),
        ledger_dir=ledger_dir if has_ledger and items[0].outputs else None,
        weights=f"{fingerprint(weights)}, {measured_kept_frames(weights)} of the frames",
        speech_detector=vad_fingerprint(options),
        references=references_fingerprint(options),
    )


def _check_standard_input(sources: Sequence[str], options: Options) -> None:
    """Refuse a second recording from standard input, which is read only once."""
    references = (options.known_speakers or {}).values()
    if [*sources, *(source for source in references if isinstance(source, str))].count("-") > 1:
        raise OptionError('only one recording can be "-", standard input; give the others as files')


def _check_read_twice(items: Sequence[WorkItem]) -> None:
    """Refuse recordings that can be read only once. A missing file fails when it is read."""
    for item in items:
        if item.path is None or (os.path.exists(item.path) and not os.path.isfile(item.path)):  # noqa: PTH110, PTH113 - Path raises for long names
            raise OptionError(
                f"--plot reads a recording twice, and {item.source} can be read only once; "
                "give a file"
            )


def _transcribe(
    arguments: TranscribeArguments,
    plan: _Plan,
    job: Job,
    remaining: Sequence[WorkItem | Failed | None],
    *,
    tally: Tally,
    screen: Screen,
) -> None:

    def write_output(transcript: Transcript, path: Path) -> None:
        suffix = path.suffix[1:]
        if suffix in PLOT_FORMATS:
            write_timeline(transcript, read_overview(transcript.source, plan.options), path)
        else:
            write(transcript, path, options=arguments.file_options(suffix))

    def show(event: Event) -> None:
        tally.count(event)
        if isinstance(event, FinishedElsewhere):
            tally.incomplete += not job.was_complete(event.item)
        screen.show(event)

    for entry in remaining:
        if isinstance(entry, Failed):
            show(entry)
    states = zip(plan.items, remaining[len(plan.failures) :], strict=True)
    items = [item for item, entry in states if isinstance(entry, WorkItem)]
    if not items:
        return
    with loading_status(arguments.model, screen.show_status):
        asr = wb.load(arguments.model, **arguments.load_keywords)
    with asr:
        tally.start()
        ordered = not any(item.outputs for item in items)
        for event in run_job(asr, items, plan.options, job, write=write_output, ordered=ordered):
            show(event)


def _say_goodbye(
    screen: Screen,
    tally: Tally,
    arguments: TranscribeArguments,
    plan: _Plan,
    ledger: Ledger | None,
) -> None:
    """Leave the recordings to other processes, and restore the terminal.

    Print what waits, and say whether the run can be resumed.
    """
    if ledger:
        ledger.leases.give_up_all()
    hint = ""
    if arguments.resumes and plan.ledger_dir:
        hint = "; run the same command again to resume"
    elif plan.items[0].outputs:
        hint = "; unfinished recordings start again next time (--resume keeps their progress)"
    with suppress(Exception):  # the reader of the output may have ended
        screen.close()
    print_note(f"stopped: {tally.summary()}{hint}")


def _options(arguments: TranscribeArguments, formats: Sequence[str]) -> Options:
    """Return the options of the transcription.

    Subtitles switch word timestamps on, because words give their cues exact times.
    """
    for file_options in (arguments.layout, arguments.tables):
        check_file_options(file_options, formats)
    given = dict(arguments.options)
    needs_words = arguments.layout.needs_words
    if needs_words or set(formats) & set(SUBTITLE_FORMATS):
        given.setdefault("word_timestamps", True)
    options = resolve(None, **given)
    if needs_words and not options.word_timestamps:
        raise OptionError(f"`{needs_words[0]}` has no effect without `word_timestamps`")
    return options


def _formats(arguments: TranscribeArguments) -> tuple[str, ...]:
    """Return the formats of the files: those given, or txt if there is an output directory."""
    if arguments.plot:
        check_plot(arguments.plot)
    names = (
        [name.strip().lower().removeprefix(".") for name in arguments.formats.split(",")]
        if arguments.formats
        else []
    )
    diarize = bool(arguments.options.get("diarize"))
    if names == ["all"]:
        return tuple(name for name in FORMATS if diarize or name not in SPEAKER_FORMATS)
    for name in names:
        if name not in FORMATS:
            check_format(name, f"--format {name or '(empty)'}")
        if name in SPEAKER_FORMATS and not diarize:
            raise OptionError(f"--format {name} needs speakers; add --diarize")
    if not names and arguments.output_dir and not arguments.plot:
        return ("txt",)
    return tuple(dict.fromkeys(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionArguments:
    """The arguments of the command: a flag for each field, and those of the last two."""

    inputs: Inputs
    model: Model = DEFAULT_MODEL
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Print a line of JSON for each recording.")
    ] = False
    verbose: Verbose = False
    load_keywords: Mapping[str, Any]
    options: Mapping[str, Any]


def detect_languages(arguments: DetectionArguments) -> int:
    """Print the language of each recording, and return the exit status.

    Raises:
        WhisperBatchError: the options are invalid, there are no recordings, the model does not
            load, or standard output cannot be written.
    """
    for_detection(**arguments.options)
    files, folder_errors = find_recordings(arguments.inputs)
    for folder_error in folder_errors:
        print_error(folder_error)
    failed = len(folder_errors)
    with loading_status(arguments.model, print_note_on_terminal):
        asr = wb.load(arguments.model, **arguments.load_keywords)
    with asr:
        for file in files:
            try:
                detection = asr.detect_language(file.source, **arguments.options)
            except WhisperBatchError as error:
                failed += 1
                print_error(error)
                continue
            if arguments.json_lines:
                print_result(json.dumps({"source": file.name, **asdict(detection)}))
            else:
                name = f"{file.name}: " if len(files) > 1 else ""
                print_result(f"{name}{_describe(detection)}")
    return 1 if failed else 0


def _describe(detection: LanguageDetection) -> str:
    """Return a detection as text: "en (English) 93%, then fr 4%, de 1%"."""
    if detection.language is None:
        return f"none ({detection.reason})" if detection.reason else "none"
    alternatives = [
        f"{code} {probability:.0%}"
        for code, probability in list(detection.probabilities.items())[1 : 1 + MAX_ALTERNATIVES]
        if probability >= MIN_PROBABILITY
    ]
    ending = f", then {', '.join(alternatives)}" if alternatives else ""
    name = LANGUAGES[detection.language].title()
    return f"{detection.language} ({name}) {detection.probability:.0%}{ending}"
