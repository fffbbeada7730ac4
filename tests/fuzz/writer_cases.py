"""Cases about outputs: transcripts with hostile texts and times, in every format."""

import csv
import io
import json
import math
import typing
from pathlib import Path
from random import Random
from typing import Any, Final

import whisperbatch as wb
from tests.fuzz.cases import Environment, Failure, Result, check
from tests.fuzz.inputs import option_values as values
from tests.fuzz.verdicts import judge
from whisperbatch.writers import FORMATS, FileOptions, render

TEXTS: Final = (
    *(
        "Hello there.",
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1+1",
        "\r=1",
        " =1",
        "a,b;\"c\"\n'd'",
        "",
    ),
    *(
        " ",
        "\0",
        "\x1b[31m",
        "\u202eabc",
        "\u2066a",
        "\u200f",
        "\ud800",
        "\udfff.",
        "日本語" * 40,
        "-->",
    ),
    *("00:00:00,000 --> 00:00:01,000", "WEBVTT", "<b>&amp;</b>", "{\\an8}", "[00:01.00]", "]]>"),
    *("x" * 5000, "word " * 500, "a\u2028b\u2029c\x85d\x0be", "\ufeff", "e\u0301" * 50, "1\n\n2\n"),
    *(
        "\N{FAMILY}\u200d\N{GRINNING FACE}",
        "אבג 123",
        "\uffff",
        "\x7f",
        "NOTE x",
        "STYLE",
        "\\N",
        "%s",
    ),
)
TIMES: Final = (
    *(0.0, 0.001, 1.0, 2.5, 59.9996, 3599.9999, 360_000.0, 1e6, 1e9, 1e15, 1e300, -0.0, -1.0),
    *(math.nan, math.inf, -math.inf, 5e-324),
)
OPTIONS: Final[tuple[type[FileOptions], ...]] = typing.get_args(FileOptions)
LANGUAGES: Final = ("en", "ja", "th", "ar", "zh", "he", "", "xx", "=1", "\u202e")
NAMES: Final = (
    *(
        "out",
        "z" * 251,
        "z" * 300,
        "é" * 120,
        "a\nb",
        "\udcff",
        "\0",
        "CON",
        "a/b/c",
        "",
        ".",
        "..",
        "-",
    ),
)


def run(random: Random, env: Environment) -> Result:
    """Write a transcript."""
    transcript = _transcript(random, env)
    format_name: Any = random.choice((*FORMATS * 3, "docx", "", None, 3, "SRT"))
    try:
        options = _options(random, env)
        if random.random() < 0.5:
            return _rendered(transcript, format_name, options, env)
        return _written(transcript, format_name, options, random, env)
    except Failure:
        raise
    except BaseException as error:  # noqa: BLE001 - all errors are judged
        return judge(error, (), ())


def _options(random: Random, env: Environment) -> FileOptions | None:
    if random.random() < 0.4:
        return None
    owner = random.choice(OPTIONS)
    declared = values.fields(owner)
    chosen = {}
    for name in random.sample(tuple(declared), random.randint(1, len(declared))):
        chosen[name], text = values.value(declared[name], random)
        env.note(text)
    try:
        return owner(**chosen)
    except wb.OptionError as error:
        env.note(f"refused: {ascii(str(error))[:100]}")
        judge(error, (), chosen)
        return owner()


def _transcript(random: Random, env: Environment) -> wb.Transcript:
    """A transcript whose values have the declared types, but any text and any time."""
    hostile = random.random() < 0.5
    segments = []
    for number in range(random.choice((0, 1, 2, 5, 40))):
        text = _text(random)
        start = random.choice(TIMES) if hostile else number + random.random() / 2
        end = random.choice(TIMES) if hostile else start + random.random() / 2
        words = tuple(
            wb.Word(random.choice(TIMES) if hostile else start, end, word, random.random())
            for word in (f" {part}" for part in text.split())
        )
        numbers = random.choice(((-0.3, 0.1, 1.2), (math.nan, math.inf, -math.inf)))
        language = random.choice(LANGUAGES) if hostile else "en"
        kept = random.choice((words, words, (), None))
        segments.append(wb.Segment(number, start, end, text, language, *numbers, 0.0, kept))
    env.note(f"{len(segments)} segments, {'hostile' if hostile else 'good'} times")
    env.note(f"first segment: {ascii(segments[:1])[:400]}")
    duration = random.choice((math.nan, 0.0, 60.0, math.inf)) if hostile else 60.0
    return wb.Transcript(
        tuple(segments), random.choice((None, *LANGUAGES)), random.random(), duration, _text(random)
    )


def _text(random: Random) -> str:
    if random.random() < 0.3:
        return "".join(chr(random.choice((random.randrange(0x300), random.randrange(0x11_0000))))
                       for _ in range(random.choice((1, 5, 50))))  # fmt: skip
    return " ".join(random.choice(TEXTS) for _ in range(random.choice((1, 1, 2, 4))))


def _rendered(
    transcript: wb.Transcript, name: Any, options: FileOptions | None, env: Environment
) -> Result:
    env.note(f"render as {name!r}")
    text = render(transcript, name, options)
    _check(text, name, transcript, options)
    return Result("text")


def _written(
    transcript: wb.Transcript,
    name: Any,
    options: FileOptions | None,
    random: Random,
    env: Environment,
) -> Result:
    stem = random.choice(NAMES)
    target: Any = env.folder / f"{stem}.{random.choice((*FORMATS, 'docx', ''))}"
    if random.random() < 0.1:
        target = random.choice(
            (None, 3, b"out.srt", "/nowhere/out.srt", "/dev/full", str(env.folder))
        )
    env.note(f"write {ascii(target)[-60:]} as {name!r}")
    before = set(env.folder.iterdir())
    path = Path(wb.write(transcript, target, name, options))
    if path.is_file():
        chosen = name or path.suffix[1:].lower()
        _check(path.read_bytes().decode("utf-8"), chosen, transcript, options)
    new = {item.name for item in set(env.folder.iterdir()) - before}
    check(len(new) <= 1, f"left in the folder: {new}")
    return Result("file")


def _check(text: str, name: Any, transcript: wb.Transcript, options: FileOptions | None) -> None:
    text.encode("utf-8")
    check(not text or text.endswith("\n"), "no line feed at the end")
    if name == "json":
        json.loads(text, parse_constant=_refuse_constant)
    if name in ("csv", "tsv"):
        safe = not isinstance(options, wb.TableOptions) or options.spreadsheet_safe
        _check_table(text, name, transcript, safe=safe)
    if name in ("srt", "vtt", "lrc", "ttml"):
        for opening, closing in (
            ("\u202a\u202b\u202d\u202e", "\u202c"),
            ("\u2066\u2067\u2068", "\u2069"),
        ):
            opened, closed = sum(map(text.count, opening)), text.count(closing)
            check(opened == closed, "unbalanced control characters of direction")


def _refuse_constant(constant: str) -> None:
    raise Failure(f"{constant} in JSON")


def _check_table(text: str, name: str, transcript: wb.Transcript, *, safe: bool) -> None:
    rows = (
        list(csv.reader(io.StringIO(text, newline="")))
        if name == "csv"
        else [line.split("\t") for line in text.split("\n")[:-1]]
    )
    check(len(rows) == len(transcript.segments) + 1, f"{len(rows)} rows")
    check(len({len(row) for row in rows}) == 1, "rows of different lengths")
    formulas = [row[-1] for row in rows if row[-1].lstrip()[:1] in tuple("=+-@")]
    check(not (formulas and safe), f"formulas: {ascii(formulas)[:100]}")
