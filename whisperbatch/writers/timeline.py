"""Draw a transcript and its recording as a picture: timeline.png, timeline.html. Needs `plot`.

    0:00 ....|||||||.......|||||||||||||....    loudness
             =======       =============        speech that the VAD found
             [  0  ]       [     1     ]        chunks
             ▒▒▒▒▒▒▒       ▓▓▓▓▓▓ ░░░░░░        segments; a pale segment is less probable
             en            en     fr            a colour for each language
                                  xxx           omissions: removed text, and missed speech

A long recording takes several lines. A point of the loudness is a tenth of a second, so that the
loudness of many hours needs little memory.
"""

import base64
import html
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import ceil, exp
from pathlib import Path
from typing import Any, Final

import numpy as np

from whisperbatch.errors import MissingExtraError, OptionError
from whisperbatch.files import write_atomically
from whisperbatch.text import escape_controls
from whisperbatch.types import HOP, Omission, Segment, Transcript, to_seconds
from whisperbatch.writers.formatting import one_line

PLOT_FORMATS: Final = ("png", "html")
POINT: Final = 10 * HOP  # samples in a point of the loudness: a tenth of a second
LINE_DURATIONS: Final = (60, 120, 300, 600, 900, 1800, 3600, 7200)  # seconds
MAX_LINES: Final = 12
LANGUAGE_COLOURS: Final = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
"""Paul Tol's bright scheme, which colour-blind people can distinguish."""
GREY, DARK_GREY, LIGHT_GREY, BLACK, RED = "#777777", "#bbbbbb", "#dddddd", "#000000", "#cc3311"
# bottom and top of each band, as fractions of the height of a line
LOUDNESS_BAND: Final = (0.55, 1.0)
SPEECH_BAND: Final = (0.46, 0.5)
CHUNK_BAND: Final = (0.34, 0.42)
SEGMENT_BAND: Final = (0.14, 0.3)
OMISSION_BAND: Final = (0.0, 0.08)


@dataclass(slots=True)
class RecordingOverview:
    """The parts of the picture that a transcript does not contain.

    Attributes:
        peaks: the largest absolute sample of each `POINT`.
        speech: (start, end) of each speech span, in seconds.
        chunks: (start, end) of each chunk, in seconds.
    """

    peaks: list[float] = field(default_factory=list)
    speech: list[tuple[float, float]] = field(default_factory=list)
    chunks: list[tuple[float, float]] = field(default_factory=list)


def check_plot(plot_format: str) -> None:
    """Check that a picture of this format can be drawn.

    Raises:
        OptionError: the format is unknown.
        MissingExtraError: matplotlib is not installed.
    """
    if plot_format not in PLOT_FORMATS:
        raise OptionError(f"`plot={plot_format!r}` is none of {', '.join(PLOT_FORMATS)}")
    if not find_spec("matplotlib"):
        raise MissingExtraError("matplotlib is not installed: pip install 'whisperbatch[plot]'")


def write_timeline(transcript: Transcript, overview: RecordingOverview, path: Path) -> Path:
    """Draw a transcript of a file, in the format of the suffix: .png, or .html with the text.

    Raises:
        WriteError: the picture cannot be written.
    """
    png = draw_timeline(transcript, overview)
    if path.suffix == ".png":
        return write_atomically(path, png)
    return write_atomically(path, html_page(transcript, png).encode(errors="backslashreplace"))


def draw_timeline(transcript: Transcript, overview: RecordingOverview) -> bytes:
    """Return the picture as PNG."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    duration = max(transcript.duration, 1.0)
    fitting = (seconds for seconds in LINE_DURATIONS if duration <= seconds * MAX_LINES)
    line_duration = min(next(fitting, LINE_DURATIONS[-1]), ceil(duration))
    lines = ceil(duration / line_duration)
    figure = Figure(figsize=(14, 1.2 + 1.5 * lines), layout="constrained")
    colours = _colours(transcript.segments)
    for number, axes in enumerate(figure.subplots(lines, squeeze=False)[:, 0]):
        start, end = number * line_duration, (number + 1) * line_duration
        _draw_line(axes, transcript, overview, start, end, colours)
    name = _printable(Path(transcript.source).name)
    figure.suptitle(f"{name}   {_clock(transcript.duration)}", fontsize=11, parse_math=False)
    figure.legend(handles=_legend(colours), loc="outside lower center", ncols=8, frameon=False)
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # file names in other scripts
        figure.savefig(out, format="png", dpi=110)
    return out.getvalue()


def html_page(transcript: Transcript, png: bytes) -> str:
    """Return picture and text as one HTML file, which refers to no other files."""
    rows = [(segment.start, _segment_row(segment)) for segment in transcript.segments]
    rows += [(omission.start, _omission_row(omission)) for omission in transcript.omissions]
    name = html.escape(_printable(Path(transcript.source).name))
    return PAGE.format(
        name=name,
        picture=base64.b64encode(png).decode(),
        about=html.escape(
            f"{_clock(transcript.duration)}, {transcript.language or 'no speech'}, "
            f"{len(transcript.segments)} segments, {transcript.chunks} chunks, "
            f"{transcript.redecoded} of them decoded again"
        ),
        rows="\n".join(row for _, row in sorted(rows, key=lambda pair: pair[0])),
    )


def confidence(segment: Segment) -> float:
    """Return the mean probability of the segment's words, from 0 to 1.

    Without words, the geometric mean probability of the tokens.
    """
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
<img alt="loudness, speech, chunks and segments over time" src="data:image/png;base64,{picture}">
<table>
{rows}
</table>
</body>
</html>
"""


def _segment_row(segment: Segment) -> str:
    return (
        f"<tr><td>{_clock(segment.start)}</td><td>{segment.language}</td>"
        f"<td>{confidence(segment):.0%}</td><td>{html.escape(one_line(segment.text))}</td></tr>"
    )


def _omission_row(omission: Omission) -> str:
    content = html.escape(one_line(omission.text)) or f"{omission.end - omission.start:.1f} s"
    return (
        f'<tr class="omissions"><td>{_clock(omission.start)}</td><td></td><td></td>'
        f"<td>{omission.reason}: {content}</td></tr>"
    )


def _draw_line(  # noqa: PLR0917 - all that the line shows
    axes: Any,  # noqa: ANN401 - matplotlib is not imported here
    transcript: Transcript,
    overview: RecordingOverview,
    start: float,
    end: float,
    colours: dict[str, str],
) -> None:
    """Draw one line of the picture, from `start` to `end` in seconds."""
    point = to_seconds(POINT)
    first, stop = int(start / point), int(end / point)
    peaks = np.array(overview.peaks[first:stop], np.float32)
    bottom, top = LOUDNESS_BAND
    middle, half = (bottom + top) / 2, (top - bottom) / 2
    times = (first + np.arange(len(peaks)) + 0.5) * point
    height = np.minimum(peaks, 1) * half
    axes.fill_between(times, middle - height, middle + height, color=GREY, linewidth=0)
    _draw_bars(axes, overview.speech, SPEECH_BAND, BLACK)
    _draw_bars(axes, overview.chunks[::2], CHUNK_BAND, LIGHT_GREY)
    _draw_bars(axes, overview.chunks[1::2], CHUNK_BAND, DARK_GREY)
    for language, colour in colours.items():
        segments = [segment for segment in transcript.segments if segment.language == language]
        opacities = [0.2 + 0.8 * confidence(segment) for segment in segments]
        axes.broken_barh(
            [(segment.start, segment.end - segment.start) for segment in segments],
            (SEGMENT_BAND[0], SEGMENT_BAND[1] - SEGMENT_BAND[0]),
            facecolors=[(colour, opacity) for opacity in opacities],
            edgecolor="white",
            linewidth=0.5,
        )
    omissions = [(omission.start, omission.end) for omission in transcript.omissions]
    _draw_bars(axes, omissions, OMISSION_BAND, RED)
    axes.set(xlim=(start, end), ylim=(-0.05, 1.02), yticks=[])
    axes.xaxis.set_major_formatter(lambda value, _: _clock(value))
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)


def _draw_bars(
    axes: Any,  # noqa: ANN401 - matplotlib is not imported here
    spans: Sequence[tuple[float, float]],
    band: tuple[float, float],
    colour: str,
) -> None:
    bottom, top = band
    axes.broken_barh(
        [(start, end - start) for start, end in spans], (bottom, top - bottom), facecolor=colour
    )


def _colours(segments: Sequence[Segment]) -> dict[str, str]:
    """Return a colour for each language, in descending order of their segments."""
    counts: dict[str, int] = {}
    for segment in segments:
        counts[segment.language] = counts.get(segment.language, 0) + 1
    languages = sorted(counts, key=lambda language: -counts[language])
    return {
        language: LANGUAGE_COLOURS[number % len(LANGUAGE_COLOURS)]
        for number, language in enumerate(languages)
    }


def _legend(colours: dict[str, str]) -> list[Any]:
    from matplotlib.patches import Patch  # noqa: PLC0415 - an extra

    return [
        Patch(color=GREY, label="loudness"),
        Patch(color=BLACK, label="speech"),
        Patch(color=LIGHT_GREY, label="chunks"),
        *(
            Patch(color=colour, label=f"text: {language} (pale: less probable)")
            for language, colour in colours.items()
        ),
        Patch(color=RED, label="omissions"),
    ]


def _printable(name: str) -> str:
    """Return a file name, which may contain any bytes, as text on one line."""
    return escape_controls(name.encode(errors="replace").decode())


def _clock(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{second:02}"
