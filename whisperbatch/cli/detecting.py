"""What `whisperbatch detect-language` does."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import whisperbatch as wb
from whisperbatch.cli.screen import complain, put
from whisperbatch.errors import OptionError, WhisperBatchError
from whisperbatch.jobs import find
from whisperbatch.options import for_detection
from whisperbatch.text import LANGUAGES
from whisperbatch.types import LanguageDetection


def detect_languages(
    inputs: Iterable[str],
    model: str,
    loading: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    json_lines: bool,
) -> int:
    """Say it of each recording, and what the command is to exit with.

    Raises:
        WhisperBatchError: nothing can be done at all.
    """
    for_detection(**options)
    found = tuple(find(inputs))
    if not found:
        raise OptionError(f"no recordings in {', '.join(inputs)}")
    failed = 0
    with wb.load(model, **loading) as asr:
        for one in found:
            try:
                detection = asr.detect_language(one.source, **options)
            except WhisperBatchError as error:
                failed += 1
                complain(error)
                continue
            if json_lines:
                put(json.dumps({"source": one.source, **asdict(detection)}))
            else:
                name = f"{one.source}: " if len(found) > 1 else ""
                put(f"{name}{_said(detection)}")
    return 1 if failed else 0


def _said(detection: LanguageDetection) -> str:
    if detection.language is None:
        return f"none ({detection.reason})" if detection.reason else "none"
    others = [
        f"{code} {probability:.0%}"
        for code, probability in list(detection.probabilities.items())[1:3]
        if probability >= 0.005  # noqa: PLR2004 - what would be shown as 0 %
    ]
    more = f", then {', '.join(others)}" if others else ""
    name = LANGUAGES[detection.language].title()
    return f"{detection.language} ({name}) {detection.probability:.0%}{more}"
