"""The commands `whisperbatch transcribe` and `whisperbatch detect-language`.

find recordings -> skip finished outputs -> load the model -> transcribe -> write files
"""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

import whisperbatch as wb
from whisperbatch.addresses import without_secrets
from whisperbatch.cli.flags import (
    DEFAULT_MODEL,
    MESSAGES,
    OUTPUT_FILE,
    Inputs,
    Model,
    Verbose,
    complete_formats,
)
from whisperbatch.cli.printing import (
    ExitOnSignal,
    loading_status,
    print_error,
    print_note,
    print_note_on_terminal,
    print_result,
    shown_progress,
)
from whisperbatch.cli.recordings import (
    Tally,
    divide_missing,
    failures_if_all,
    find_recordings,
    missing_message,
    read_overview,
    with_home,
)
from whisperbatch.cli.screen import LINES, Screen, open_screen, show_missing
from whisperbatch.diarization.stage import prepare
from whisperbatch.engines.settings import settings_of
from whisperbatch.errors import OptionError, WhisperBatchError
from whisperbatch.jobs import (
    LEDGER_NAME,
    MACHINE_KEYWORDS,
    Event,
    Failed,
    FinishedElsewhere,
    InputFile,
    Job,
    Ledger,
    WorkItem,
    digest,
    is_known_suffix,
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
    format_of,
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
            *("--format", "-f"),
            metavar="LIST",
            help=f"Write files in these formats: {', '.join(FORMATS)}; several with commas, or "
            "all. Without this flag and without --output, text is printed; for a folder, txt files "
            "are written, because its job can then be resumed.",
            show_default=False,
            autocompletion=complete_formats,
        ),
    ] = ""
    output_path: Annotated[
        str,
        typer.Option(
            *("--output", "-o", "--output-dir"),
            metavar="PATH",
            help=f"Where the result goes. {OUTPUT_FILE} A folder, which is made if necessary: one "
            "or more files for each recording. Or -: the text is printed, or with --format the "
            "file that would be written. Without this flag, files go next to each recording.",
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
            metavar="png|html",
            help="Also draw a timeline of loudness, speech, chunks and segments: png or html.",
            show_default=False,
            rich_help_panel=MESSAGES,
        ),
    ] = ""
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Print each segment as a line of JSON.")
    ] = False
    quiet: Annotated[
        bool,
        typer.Option(
            *("--quiet", "-q"),
            help="Print only text and errors, without progress bars.",
            rich_help_panel=MESSAGES,
        ),
    ] = False
    verbose: Verbose = False
    layout: SubtitleOptions = field(default_factory=SubtitleOptions)
    tables: TableOptions = field(default_factory=TableOptions)
    load_keywords: Mapping[str, Any]
    options: Mapping[str, Any]

    @property
    def directories(self) -> list[Path]:
        """The inputs that are directories."""
        names = map(with_home, self.inputs)
        return [Path(name) for name in names if os.path.isdir(name)]  # noqa: PTH112 - Path raises for long names

    def file_options(self, name: str) -> FileOptions:
        """Return the options that have an effect on a format; other options have their defaults."""
        return (self.tables if name in TABLE_FORMATS else self.layout).fitted(name)

    @property
    def resumes(self) -> bool:
        """Whether finished recordings are skipped."""
        return bool(self.directories) if self.resume is None else self.resume


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """Where the results of a run go.

    Attributes:
        formats: of the files; empty if none are written.
        printed: format of what is printed, or `LINES`; empty if nothing is.
        folder: of the files; None for the folders of the recordings.
        file: the only file, in place of a folder.
    """

    formats: tuple[str, ...] = ()
    printed: str = ""
    folder: Path | None = None
    file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The work of a run, before finished outputs are skipped.

    Attributes:
        items: all recordings that exist, and their outputs.
        missing: the recordings that do not exist.
        failures: the folders that cannot be searched.
        options: of the transcription.
        printed: see `_Target`.
        ledger_dir: directory of the ledger; None if the run has no ledger.
        weights: fingerprint of the model, with the share of the encoder's frames that is kept
            without `kept_frames`.
        speech_detector: fingerprint of the voice activity detector.
        references: fingerprint of the recordings of known speakers; None if one is not a file.
    """

    items: tuple[WorkItem, ...]
    missing: tuple[Failed, ...]
    failures: tuple[Failed, ...]
    options: Options
    printed: str
    ledger_dir: Path | None = None
    weights: str = ""
    speech_detector: str = ""
    references: str | None = None

    @property
    def writes(self) -> bool:
        """Whether files are written."""
        return any(item.outputs for item in self.items)


def transcribe_all(arguments: TranscribeArguments) -> int:
    """Transcribe all recordings, and return the exit status.

    Raises:
        WhisperBatchError: an argument is invalid, or the model does not load.
    """
    plan = _plan(arguments)
    tally = Tally(failed=len(plan.missing))
    if not plan.items:
        screen = open_screen((), json_lines=arguments.json_lines, printed="", quiet=True)
        for failure in plan.failures:
            tally.count(failure)
            screen.show(failure)
        print_note(tally.summary())
        return 1
    file_options = {name: arguments.file_options(name) for name in FORMATS}
    # devices and threads do not change the text
    load_keywords = [
        (name, value)
        for name, value in sorted(arguments.load_keywords.items())
        if name not in MACHINE_KEYWORDS
    ]

    def settings(output: Path) -> str | None:
        options = file_options.get(format_of(output))
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
        tally.already_done = len(done)
        tally.incomplete = sum(not job.was_complete(item) for item in done)
        screen = open_screen(
            [entry if isinstance(entry, WorkItem) else entry.item for entry in remaining if entry],
            json_lines=arguments.json_lines,
            printed=plan.printed,
            file_options=file_options.get(plan.printed),
            quiet=arguments.quiet,
        )
        say_goodbye = partial(_say_goodbye, screen, tally, arguments, plan, ledger)
        with ExitOnSignal(say_goodbye), closing(screen):
            _transcribe(arguments, plan, job, remaining, tally=tally, screen=screen)
    silent = arguments.quiet or (plan.printed and not sys.stderr.isatty())
    if tally.failed or tally.incomplete or tally.silent or not silent:
        print_note(f"{tally.summary()}{_written(plan, tally)}")
    return 1 if tally.failed else 0


def _written(plan: _Plan, tally: Tally) -> str:
    """Return " -> talk.srt": the files of the only recording. A terminal has shown them."""
    if len(plan.items) != 1 or not tally.transcribed or sys.stderr.isatty():
        return ""
    outputs = ", ".join(map(str, plan.items[0].outputs))
    return f" -> {outputs}" if outputs else ""


def _plan(arguments: TranscribeArguments) -> _Plan:
    files, errors = find_recordings(arguments.inputs, {f".{name}" for name in FORMATS})
    target = _target(arguments, files)
    printed = (target.printed,) if target.printed in FORMATS else ()
    options = _options(arguments, target.formats or printed)
    _check_standard_input([file.source for file in files], options)
    plots = (f"timeline.{arguments.plot}",) if arguments.plot else ()
    items = plan_outputs(files, (*target.formats, *plots), target.folder, target.file)
    if arguments.resume and not items[0].outputs:
        raise OptionError("--resume has no effect if no files are written; add --format")
    if arguments.plot:
        _check_read_twice(items)
    present, missing = divide_missing(items)
    plan = _Plan(
        items=present,
        missing=missing,
        failures=tuple(Failed(WorkItem(error.source or "", ()), error) for error in errors),
        options=options,
        printed=target.printed,
    )
    if missing:
        show_missing(missing, json_lines=arguments.json_lines)
    return _with_model(arguments, plan, target, files) if present else plan


def _with_model(
    arguments: TranscribeArguments, plan: _Plan, target: _Target, files: Sequence[InputFile]
) -> _Plan:
    """Add what the outputs depend on; make the folder of the outputs; download the model."""
    if target.formats and not (arguments.formats or arguments.output_path or arguments.quiet):
        print_note("the texts go next to the recordings, as txt files; -o names another folder")
    folder = target.file.parent if target.file else target.folder
    first = next(file for file in files if file.source == plan.items[0].source)
    ledger_dir = folder or next(iter(arguments.directories), first.directory or Path())
    if folder:
        make_folder(folder)
    # a run of files without --resume updates a ledger that exists, but creates none
    has_ledger = (
        arguments.resumes or arguments.directories or os.path.exists(ledger_dir / LEDGER_NAME)  # noqa: PTH110 - Path raises without rights
    )
    engine = settings_of(arguments.load_keywords)
    prepare(plan.options)
    engine.check(plan.options.search)
    # with --verbose, the log has these messages
    hidden = arguments.quiet or arguments.verbose
    with nullcontext() if hidden else shown_progress(print_note):
        weights = find_model(
            arguments.model, transformers=engine.reads_transformers, revision=engine.revision
        )
    return replace(
        plan,
        ledger_dir=ledger_dir if has_ledger and plan.writes else None,
        weights=f"{fingerprint(weights)}, {measured_kept_frames(weights)} of the frames",
        speech_detector=vad_fingerprint(plan.options),
        references=references_fingerprint(plan.options),
    )


def _target(arguments: TranscribeArguments, files: Sequence[InputFile]) -> _Target:
    """Return where results go.

    Raises:
        OptionError: the formats, the output and the recordings do not fit together.
    """
    formats = _formats(arguments)
    path = with_home(arguments.output_path)
    several = len(files) > 1 or bool(arguments.directories)
    if path == "-":
        return _printed(arguments, formats, several=several)
    if path and is_file(path):
        if several:
            raise OptionError(
                f"--output {path} is one file, and there may be several recordings; name a folder"
            )
        given, formats = formats, checked_formats([format_of(path)], arguments.options)
        if given and given != formats:
            raise OptionError(
                f"--format {','.join(given)} contradicts --output {path}; leave --format out, or "
                "name a folder"
            )
        return _Target(formats=formats, file=Path(path))
    folder = Path(path) if path else None
    if not formats:
        implied = bool(arguments.directories) or (folder and several)
        if (folder and not arguments.plot) or (implied and not arguments.json_lines):
            formats = ("txt",)
    printed = "" if formats or arguments.json_lines else LINES
    return _Target(formats=formats, printed=printed, folder=folder)


def is_file(path: str) -> bool:
    """Return whether an output is a file: it has the suffix of a format, and is no folder.

    Raises:
        OptionError: it is probably meant as a file, but cannot be one.
    """
    if path.endswith(("/", os.sep)) or os.path.isdir(path):  # noqa: PTH112 - Path raises for long names
        return False
    name = format_of(path)
    if name in FORMATS:
        return True
    if "://" in path:
        raise OptionError(
            f"--output {without_secrets(path, whole=True)}: files are written to this machine; "
            "whisperbatch plan and join write to a store"
        )
    if path.lower() in (*FORMATS, "all"):
        raise OptionError(
            f"--output {path} would make a folder; --format {path.lower()} gives the format, and "
            f"--output {path}/ names the folder"
        )
    if is_known_suffix(f".{name}"):
        raise OptionError(
            f"--output {path}: {name} is none of {', '.join(FORMATS)}; a folder of this name "
            "needs a / at its end"
        )
    return False


def _printed(arguments: TranscribeArguments, formats: tuple[str, ...], *, several: bool) -> _Target:
    """Return the target of `--output -`.

    Raises:
        OptionError: standard output cannot take all that is asked for.
    """
    name = ",".join(formats)
    if arguments.plot:
        raise OptionError("--plot draws a picture, which --output - does not print; leave one out")
    if arguments.json_lines and formats:
        raise OptionError(f"--json-lines and --format {name} cannot both be printed; leave one out")
    if len(formats) > 1:
        raise OptionError(f"--output - prints one format, not {name}")
    if formats and several:
        raise OptionError(
            f"--output - prints the {name} of one recording, and there may be several; name a "
            "folder"
        )
    return _Target(printed="" if arguments.json_lines else name or LINES)


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
        suffix = format_of(path)
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
        # the events of several recordings may alternate, unless each is a line of JSON
        ordered = arguments.json_lines and not any(item.outputs for item in items)
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
    elif plan.writes:
        hint = "; unfinished recordings start again next time (--resume keeps their progress)"
    with suppress(Exception):  # the reader of the output may have ended
        screen.close()
    print_note(f"stopped: {tally.summary()}{hint}")


def _options(arguments: TranscribeArguments, formats: Sequence[str]) -> Options:
    """Return the options of the transcription."""
    return resolve(
        None, **with_words(arguments.options, arguments.layout, arguments.tables, formats)
    )


def with_words(
    given: Mapping[str, Any], layout: SubtitleOptions, tables: TableOptions, formats: Sequence[str]
) -> dict[str, Any]:
    """Return the options with those that the files need.

    Subtitles switch word timestamps on, because words give their cues exact times.

    Args:
        given: the options that are given.
        layout: of subtitles.
        tables: the options of tables.
        formats: of the files.

    Raises:
        OptionError: an option of the files has no effect.
    """
    for file_options in (layout, tables):
        check_file_options(file_options, formats)
    options = dict(given)
    if layout.needs_words or set(formats) & set(SUBTITLE_FORMATS):
        options.setdefault("word_timestamps", True)
    if layout.needs_words and not options["word_timestamps"]:
        raise OptionError(f"`{layout.needs_words[0]}` has no effect without `word_timestamps`")
    return options


def _formats(arguments: TranscribeArguments) -> tuple[str, ...]:
    """Return the formats that are given."""
    if arguments.plot:
        check_plot(arguments.plot)
    names = [name.strip().lower().removeprefix(".") for name in arguments.formats.split(",")]
    if names == ["all"]:
        diarize = bool(arguments.options.get("diarize"))
        return tuple(name for name in FORMATS if diarize or name not in SPEAKER_FORMATS)
    return checked_formats(names, arguments.options) if arguments.formats else ()


def checked_formats(names: Iterable[str], given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return each format once.

    Args:
        names: of formats.
        given: the options that are given.

    Raises:
        OptionError: one is unknown, or needs speakers.
    """
    formats = tuple(dict.fromkeys(names))
    for name in formats:
        if name not in FORMATS:
            check_format(name, f"--format {name or '(empty)'}")
        if name in SPEAKER_FORMATS and not given.get("diarize"):
            raise OptionError(f"--format {name} needs speakers; add --diarize")
    return formats


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
    present, missing = divide_missing([WorkItem(file.source, ()) for file in files])
    if missing:
        print_note(f"failed: {missing_message(missing)}")
    if not present:
        return 1
    failed = len(folder_errors) + len(missing)
    with loading_status(arguments.model, print_note_on_terminal):
        asr = wb.load(arguments.model, **arguments.load_keywords)
    with asr:
        for file in present:
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
