"""The command `whisperbatch detect-language`."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final

import typer

import whisperbatch as wb
from whisperbatch.cli.flags import DEFAULT_MODEL, Inputs, Model, Verbose
from whisperbatch.cli.printing import (
    loading_status,
    print_error,
    print_note_on_terminal,
    print_result,
)
from whisperbatch.cli.recordings import find_recordings
from whisperbatch.errors import WhisperBatchError
from whisperbatch.options import for_detection
from whisperbatch.text import LANGUAGES
from whisperbatch.types import LanguageDetection

MAX_ALTERNATIVES: Final = 2  # languages printed after the best language
MIN_PROBABILITY: Final = 0.005  # of an alternative: less would be printed as 0 %


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionArguments:
    """The arguments of the command: a flag for each field, and those of the last two.

    Attributes:
        load_keywords: keywords of `load`.
        options: keywords of `detect_language`.
    """

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
