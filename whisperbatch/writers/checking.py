"""Find the cues of a file of subtitles that break the rules of a broadcaster.

The rules are those that the writers follow (`rules`), so every cue that a writer could not fit into
them is found here, too.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, get_args

from whisperbatch.options import checks
from whisperbatch.text.language_names import check_language
from whisperbatch.text.languages import LANGUAGES, UNSPACED, script
from whisperbatch.text.sentences import Ending, ending
from whisperbatch.writers.breaks import Break, is_bad
from whisperbatch.writers.formatting import clock, width_of
from whisperbatch.writers.reading import FileCue, read_cues
from whisperbatch.writers.rules import FRAME_RATE, Rules, RulesName, rules_for

ROUNDING: Final = 10  # ms: formats with two decimals
LOPSIDED: Final = 4  # a line that is this many times wider than the other
MAX_FRAME_RATE: Final = 1000.0
SCRIPT_LANGUAGES: Final = (
    ("HIRAGANA", "ja"),
    ("KATAKANA", "ja"),
    ("HANGUL", "ko"),
    ("CJK", "zh"),
    ("THAI", "th"),
    ("DEVANAGARI", "hi"),
    ("ARABIC", "ar"),
    ("HEBREW", "he"),
    ("CYRILLIC", "ru"),
)
"""For each script, its language with the most speakers; kana come before Chinese characters."""
MIN_SHARE: Final = 0.2  # of the letters of a file


@dataclass(frozen=True, slots=True)
class Violation:
    """A cue that breaks a rule.

    Attributes:
        cue: number of the cue in the file, from 1.
        start: of the cue, in seconds.
        rule: "line width", "line count", "reading speed", "too short", "too long", "gap",
            "overlap", "line break" or "balance".
        value: that was found: columns, lines, columns or words per second, or seconds; 0 for a
            break.
        limit: of the rules, in the same unit; 0 for a break.
        message: says what is wrong, in one line.
    """

    cue: int
    start: float
    rule: str
    value: float
    limit: float
    message: str

    def __str__(self) -> str:
        """Return the violation on one line."""
        return f"{self.cue}  {clock(round(self.start * 1000))}  {self.rule}: {self.message}"


def check(
    path: str | os.PathLike[str],
    rules: RulesName = "netflix",
    *,
    language: str | None = None,
    frame_rate: float = FRAME_RATE,
) -> list[Violation]:
    """Return the violations of a file of subtitles, in the order of its cues.

    Args:
        path: of a file with the suffix .srt, .vtt, .sbv, .ass or .ssa.
        rules: name of the rules: "netflix", "bbc", "youtube" or "plain".
        language: Whisper's code or an English name. None takes the code in the file name
            (`talk.de.srt`), or the language of the script, or English.
        frame_rate: of the video, in frames per second; the least gap is two frames.

    Returns:
        The violations; empty if the file follows the rules.

    Raises:
        OptionError: an option is wrong, or the file cannot be read or has no cues.
    """
    checks.path("path", path)
    checks.choice("rules", rules, get_args(RulesName))
    checks.number("frame_rate", frame_rate, minimum=1, maximum=MAX_FRAME_RATE)
    cues = read_cues(path)
    code = language_of(path, cues) if language is None else check_language(language, "language")
    return list(violations(cues, rules_for(rules, code, frame_rate), code))


def language_of(path: str | os.PathLike[str], cues: Sequence[FileCue]) -> str:
    """Return the language of a file: by its name, or by the script of its text."""
    named = Path(path).stem.rpartition(".")[2].lower().partition("-")[0]
    if "." in Path(path).stem and named in LANGUAGES:
        return named
    letters = [c for cue in cues for line in cue.lines for c in line if c.isalpha()]
    scripts = [script(letter) for letter in letters]
    found = (
        language
        for name, language in SCRIPT_LANGUAGES
        if scripts.count(name) > MIN_SHARE * len(scripts)
    )
    return next(found, "en")


def violations(cues: Sequence[FileCue], rules: Rules, language: str) -> Iterator[Violation]:
    """Yield the violations of cues in order of time."""
    for number, cue in enumerate(cues):
        following = cues[number + 1] if number + 1 < len(cues) else None
        yield from _line_violations(cue, rules)
        yield from _time_violations(cue, rules)
        if following:
            yield from _gap_violations(cue, following, rules)
        yield from _break_violations(cue, following, language)


def _line_violations(cue: FileCue, rules: Rules) -> Iterator[Violation]:
    """Yield what is wrong with the lines of a cue."""
    limit = rules.max_line_width
    for line in cue.lines:
        if limit is not None and width_of(line) > limit:
            width = width_of(line)
            message = f"{width} columns, at most {limit}: {line}"
            yield _violation(cue, "line width", width, limit, message)
    if rules.max_line_count is not None and len(cue.lines) > rules.max_line_count:
        count, most = len(cue.lines), rules.max_line_count
        yield _violation(cue, "line count", count, most, f"{count} lines, at most {most}")


def _time_violations(cue: FileCue, rules: Rules) -> Iterator[Violation]:
    """Yield what is wrong with the duration of a cue."""
    if not rules.timed:
        return
    seconds = (cue.end - cue.start) / 1000
    longest = (cue.end - cue.start + ROUNDING) / 1000
    width = sum(map(width_of, cue.lines))
    words = sum(len(line.split()) for line in cue.lines)
    for count, limit, unit in (
        (width, rules.max_reading_speed, "columns"),
        (words, rules.max_words, "words"),
    ):
        if limit is not None and seconds >= 0 and count > limit * longest:
            speed = round(count / max(seconds, 0.001), 1)
            message = f"{speed:g} {unit} per second, at most {limit:g}"
            yield _violation(cue, "reading speed", speed, limit, message)
    if longest < rules.min_duration:
        message = f"{seconds:.3f} s, at least {rules.min_duration:.3f} s"
        yield _violation(cue, "too short", seconds, rules.min_duration, message)
    if rules.max_duration is not None and seconds > rules.max_duration + ROUNDING / 1000:
        message = f"{seconds:.3f} s, at most {rules.max_duration:g} s"
        yield _violation(cue, "too long", seconds, rules.max_duration, message)


def _gap_violations(cue: FileCue, following: FileCue, rules: Rules) -> Iterator[Violation]:
    """Yield what is wrong with the time between two cues."""
    pause = (following.start - cue.end) / 1000
    rounding = ROUNDING / 1000
    if pause < -rounding:
        message = f"{-pause:.3f} s with the next cue"
        yield _violation(cue, "overlap", round(-pause, 3), 0.0, message)
    elif rules.timed and pause < rules.gap - rounding:
        message = f"{pause:.3f} s to the next cue, at least {rules.gap:.3f} s"
        yield _violation(cue, "gap", pause, rules.gap, message)
    elif rules.timed and rules.gap + rounding < pause < rules.min_pause - rounding:
        message = (
            f"{pause:.3f} s to the next cue: close it to {rules.gap:.3f} s, or leave "
            f"{rules.min_pause:g} s"
        )
        yield _violation(cue, "gap", pause, rules.min_pause, message)


def _break_violations(
    cue: FileCue, following: FileCue | None, language: str
) -> Iterator[Violation]:
    """Yield lines that end inside a phrase, and lines of very different width."""
    for first, second in pairwise((*cue.lines, *(following.lines[:1] if following else ()))):
        if _is_bad(first, second, language):
            message = f"the line ends after {first.split()[-1]!r}: {first} | {second}"
            yield _violation(cue, "line break", 0, 0, message)
    for first, second in pairwise(cue.lines):
        narrow, wide = sorted((first, second), key=width_of)
        has_one_word = language not in UNSPACED and " " not in narrow
        is_lopsided = width_of(wide) > LOPSIDED * width_of(narrow)
        if (has_one_word or is_lopsided) and not re.search(r"\W$", first):
            message = f"lines of {width_of(first)} and {width_of(second)} columns: {narrow}"
            yield _violation(cue, "balance", width_of(narrow), width_of(wide), message)


def _is_bad(first: str, second: str, language: str) -> bool:
    """Return whether a break between two lines separates what belongs together.

    Not if a sentence may end there. Without the sound, nobody knows where a phrase without spaces
    ends.
    """
    if language in UNSPACED or ending(first, f" {second}", language) is not Ending.NONE:
        return False
    start = first.rfind(" ") + 1
    text = f"{first} {second}"
    return is_bad(Break(text, 0, start, len(first), len(first) + 1, language))


def _violation(cue: FileCue, rule: str, value: float, limit: float, message: str) -> Violation:
    return Violation(cue.number, cue.start / 1000, rule, value, limit, message)
