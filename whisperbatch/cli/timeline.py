"""A picture of a transcript: what was heard, and what became of it. The extra `plot`.

    0:00 ....|||||||.......|||||||||||||....    how loud it is, from moment to moment
             =======       =============        what the detector found to be speech
             [  0  ]       [     1     ]        chunks: how it was cut to be decoded
             ▒▒▒▒▒▒▒       ▓▓▓▓▓▓ ░░░░░░        segments: the paler, the less sure
             en            en     fr            their languages, in a colour each
                                  xxx           what was left out, and speech that was missed

Long recordings take several lines. A point of the picture is a tenth of a second, so that hours
take little memory.
"""

import base64
import html
import io
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import ceil, exp
from pathlib import Path
from typing import Any, Final

import numpy as np

from whisperbatch import chunk_audio
from whisperbatch.audio import AudioReader, open_audio
from whisperbatch.errors import MissingExtraError, OptionError
from whisperbatch.options import Options
from whisperbatch.types import (
    HOP,
    Omission,
    Samples,
    Segment,
    Source,
    SpeechSpan,
    Transcript,
    to_seconds,
)
from whisperbatch.writers import write_atomically

KINDS: Final = ("png", "html")
STEP: Final = 10 * HOP  # samples to a point: a tenth of a second
LINES: Final = (60, 120, 300, 600, 900, 1800, 3600, 7200)  # seconds that a line may show
MOST_LINES: Final = 12
COLOURS: Final = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
"""Paul Tol's bright scheme, which the colour-blind tell apart."""
GREY, RED, FAINT = "#777777", "#cc3311", "#dddddd"
LOUD: Final = (0.55, 1.0)  # from and to, of a line's height
SPEECH: Final = (0.46, 0.5)
CHUNKS: Final = (0.34, 0.42)
SEGMENTS: Final = (0.14, 0.3)
LEFT_OUT: Final = (0.0, 0.08)


@dataclass(slots=True)
class Seen:
    """What is seen of a recording.

    Attributes:
        peaks: the loudest sample of each `STEP`.
        speech: (start, end) in seconds of each stretch.
        chunks: likewise.
    """

    peaks: list[float] = field(default_factory=list)
    speech: list[tuple[float, float]] = field(default_factory=list)
    chunks: list[tuple[float, float]] = field(default_factory=list)


def look(source: Source, options: Options) -> Seen:
    """Read a recording once more, for what a transcript does not hold.

    Args:
        source: a file or samples: what can be read twice.
        options: that it was transcribed with.

    Raises:
        AudioError: it cannot be read.
    """
    seen = Seen()
    with open_audio(source, options) as reader:
        blocks = _measured(reader.blocks(), seen.peaks)
        measured = AudioReader(reader.name, blocks, reader.close, options=options)
        for chunk in chunk_audio(measured, options=options):
            seen.chunks.append((to_seconds(chunk.start), to_seconds(chunk.end)))
            seen.speech += [_seconds(span) for span in chunk.speech]
    return seen


def check_plot(kind: str) -> None:
    """Whether a picture can be drawn here.

    Raises:
        OptionError: there is no such kind.
        MissingExtraError: matplotlib is not installed.
    """
    if kind not in KINDS:
        raise OptionError(f"plot={kind!r} is none of {', '.join(KINDS)}")
    if not find_spec("matplotlib"):
        raise MissingExtraError("matplotlib is not installed: pip install 'whisperbatch[plot]'")


def draw(transcript: Transcript, path: Path, options: Options) -> Path:
    """Draw a transcript of a file, as the suffix says: .png, or .html with the text below.

    Raises:
        AudioError: the recording cannot be read again.
        WriteError: the picture cannot be written.
    """
    image = picture(transcript, look(transcript.source, options))
    data = (
        image
        if path.suffix == ".png"
        else page(transcript, image).encode(errors="backslashreplace")
    )
    return write_atomically(path, data)


def picture(transcript: Transcript, seen: Seen) -> bytes:
    """The picture, as PNG."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    duration = max(transcript.duration, 1.0)
    length = next((one for one in LINES if duration <= one * MOST_LINES), LINES[-1])
    length = min(length, ceil(duration))
    lines = ceil(duration / length)
    figure = Figure(figsize=(14, 1.2 + 1.5 * lines), layout="constrained")
    colours = _colours(transcript.segments)
    for number, axes in enumerate(figure.subplots(lines, squeeze=False)[:, 0]):
        _line(axes, transcript, seen, number * length, (number + 1) * length, colours)
    name = _printable(Path(transcript.source).name)
    figure.suptitle(f"{name}   {_clock(transcript.duration)}", fontsize=11, parse_math=False)
    figure.legend(handles=_legend(colours), loc="outside lower center", ncols=8, frameon=False)
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # of a name in another script
        figure.savefig(out, format="png", dpi=110)
    return out.getvalue()


def page(transcript: Transcript, image: bytes) -> str:
    """The picture and the text, as one HTML file that needs nothing else."""
    rows = [(one.start, _row(one)) for one in transcript.segments]
    rows += [(one.start, _dropped_row(one)) for one in transcript.omissions]
    name = html.escape(_printable(Path(transcript.source).name))
    return PAGE.format(
        name=name,
        picture=base64.b64encode(image).decode(),
        about=html.escape(
            f"{_clock(transcript.duration)}, {transcript.language or 'no speech'}, "
            f"{len(transcript.segments)} segments, {transcript.chunks} chunks, "
            f"{transcript.redecoded} of them decoded more than once"
        ),
        rows="\n".join(row for _, row in sorted(rows, key=lambda pair: pair[0])),
    )


def confidence(segment: Segment) -> float:
    """From 0 to 1: the mean probability of a token, or of a word where there are words."""
    if segment.words:
        return sum(word.probability for word in segment.words) / len(segment.words)
    return min(exp(segment.avg_logprob), 1.0)


PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{name}</title>
<style>
body {{ font: 15px/1.5 sans-serif; max-width: 90rem; margin: 1rem auto; padding: 0 1rem }}
img {{ max-width: 100% }}
td {{ padding: 0.1rem 0.8rem 0.1rem 0; vertical-align: top }}
td:first-child {{ color: #777; white-space: nowrap }}
.omissions {{ color: #cc3311 }}
</style>
</head>
<body>
<h1>{name}</h1>
<p>{about}</p>
<img alt="what was heard and what became of it" src="data:image/png;base64,{picture}">
<table>
{rows}
</table>
</body>
</html>
"""


def _row(segment: Segment) -> str:
    return (
        f"<tr><td>{_clock(segment.start)}</td><td>{segment.language}</td>"
        f"<td>{confidence(segment):.0%}</td><td>{html.escape(segment.text)}</td></tr>"
    )


def _dropped_row(one: Omission) -> str:
    return (
        f'<tr class="dropped"><td>{_clock(one.start)}</td><td></td><td></td>'
        f"<td>{one.reason}: {html.escape(one.text) or f'{one.end - one.start:.1f} s'}</td></tr>"
    )


def _line(  # noqa: PLR0917 - what a line shows
    axes: Any,  # noqa: ANN401 - matplotlib is not imported here
    transcript: Transcript,
    seen: Seen,
    start: float,
    end: float,
    colours: dict[str, str],
) -> None:
    """One line of the picture."""
    step = to_seconds(STEP)
    first, last = int(start / step), int(end / step)
    peaks = np.array(seen.peaks[first:last], np.float32)
    middle, half = sum(LOUD) / 2, (LOUD[1] - LOUD[0]) / 2
    times = (first + np.arange(len(peaks)) + 0.5) * step
    height = np.minimum(peaks, 1) * half
    axes.fill_between(times, middle - height, middle + height, color=GREY, linewidth=0)
    _bars(axes, seen.speech, SPEECH, "#000000")
    _bars(axes, seen.chunks[::2], CHUNKS, FAINT)
    _bars(axes, seen.chunks[1::2], CHUNKS, "#bbbbbb")
    for language, colour in colours.items():
        own = [one for one in transcript.segments if one.language == language]
        sure = [0.2 + 0.8 * confidence(one) for one in own]
        axes.broken_barh(
            [(one.start, one.end - one.start) for one in own],
            (SEGMENTS[0], SEGMENTS[1] - SEGMENTS[0]),
            facecolors=[(colour, alpha) for alpha in sure],
            edgecolor="white",
            linewidth=0.5,
        )
    _bars(axes, [(one.start, one.end) for one in transcript.omissions], LEFT_OUT, RED)
    axes.set(xlim=(start, end), ylim=(-0.05, 1.02), yticks=[])
    axes.xaxis.set_major_formatter(lambda value, _: _clock(value))
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)


def _bars(
    axes: Any,  # noqa: ANN401 - matplotlib is not imported here
    spans: Sequence[tuple[float, float]],
    place: tuple[float, float],
    colour: str,
) -> None:
    low, high = place
    axes.broken_barh(
        [(start, end - start) for start, end in spans], (low, high - low), facecolor=colour
    )


def _colours(segments: Sequence[Segment]) -> dict[str, str]:
    """A colour for each language, those of most segments first."""
    counts: dict[str, int] = {}
    for segment in segments:
        counts[segment.language] = counts.get(segment.language, 0) + 1
    ranked = sorted(counts, key=lambda language: -counts[language])
    return {one: COLOURS[number % len(COLOURS)] for number, one in enumerate(ranked)}


def _legend(colours: dict[str, str]) -> list[Any]:
    from matplotlib.patches import Patch  # noqa: PLC0415 - an extra

    return [
        Patch(color=GREY, label="loudness"),
        Patch(color="#000000", label="speech"),
        Patch(color=FAINT, label="chunks"),
        *(
            Patch(color=colour, label=f"text: {one}, pale: unsure")
            for one, colour in colours.items()
        ),
        Patch(color=RED, label="left out or missed"),
    ]


def _measured(blocks: Iterable[Samples], peaks: list[float]) -> Iterator[Samples]:
    """The same blocks; the loudest of each `STEP` samples is added to `peaks`."""
    rest = np.zeros(0, np.float32)
    for block in blocks:
        loud = np.concatenate((rest, np.abs(block)))
        whole = len(loud) // STEP * STEP
        peaks += loud[:whole].reshape(-1, STEP).max(axis=1).tolist()
        rest = loud[whole:]
        yield block
    peaks += [float(rest.max())] if len(rest) else []


def _seconds(span: SpeechSpan) -> tuple[float, float]:
    return to_seconds(span.start), to_seconds(span.end)


def _printable(name: str) -> str:
    """A file's name, which may hold anything, as text."""
    return name.encode(errors="replace").decode()


def _clock(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{second:02}"
