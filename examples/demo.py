"""Show what whisperbatch does, with real speech and the model base: `make demo`.

    1. the first sentence of an hour, then position and memory; the hour is stopped early
    2. five languages in one recording, all detected
    3. a telephone call with its speakers
    4. a difficult recording, beside faster-whisper with the same weights: wrong words are marked
    5. the files that the command line wrote

A part whose speech or weights cannot be fetched here is skipped with one line. With a file,
`make demo FILE=talk.mp3`, the command line transcribes it and writes the same files.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

import jiwer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import whisperbatch as wb

sys.path.insert(0, str(Path(__file__).parents[1]))  # for benchmarks/, which is not installed

from benchmarks import corpora, recordings, scoring, segments, speech, systems, timing

FOLDER: Final = Path("build") / "demo"
DIFFICULT: Final = "mixed:en:180:0"
"""The first three minutes of the difficult hour in README's figures."""
MINUTES: Final = ("faint speech", "noise between the sentences", "telephone line")
OTHERS: Final = {
    "faster-whisper": "faster-whisper-5",
    "its batched mode": "faster-whisper-batched-5",
}
"""Systems of `benchmarks.systems`: faster-whisper's own code, with its defaults."""
HOUR_FOR: Final = 8  # seconds; then the transcription of the hour is stopped
FIRST_SENTENCES: Final = 3  # of the hour, which are printed
CONTEXT: Final = 3  # words that are shown of each end of a run of right or wrong words
COLOURS: Final = ("cyan", "yellow", "green", "magenta")  # of speakers
MISSED, INVENTED, RIGHT = "missed", "invented", "right"
STYLES: Final = {MISSED: "red strike", INVENTED: "bold black on yellow", RIGHT: ""}
SIGNS: Final = {MISSED: "[-{}-]", INVENTED: "{{+{}+}}", RIGHT: "{}"}  # without colours

console = Console(highlight=False)


class Mark(NamedTuple):
    """A word of the truth or of a transcript: `place` is the number of its word in the truth."""

    kind: str
    place: int
    word: str


def main(files: list[str]) -> int:
    """Run the demo, or transcribe the files; return the exit status."""
    for file in files:
        if "://" not in file and not Path(file).exists():
            print(f"demo: {file}: there is no such file", file=sys.stderr)
            return 1
    if files:
        return transcribe_files(files)
    with console.status("Loading the model (the first run prepares it for this processor) ..."):
        asr = wb.load("base")
    with asr, tempfile.TemporaryDirectory() as directory:
        parts: dict[str, Callable[[], None]] = {
            "The first sentence of an hour": lambda: show_hour(asr, Path(directory)),
            "Languages, detected": lambda: show_languages(asr, Path(directory)),
            "A telephone call, and who speaks": lambda: show_call(asr),
            "A difficult recording, beside faster-whisper": compare,
        }
        for title, show in parts.items():
            console.print()
            console.rule(f"[bold]{title}[/]", align="left", style="dim")
            try:
                show()
            except (speech.SpeechError, corpora.CorpusError, wb.MissingExtraError) as error:
                console.print(f"Skipped: {error}")
    console.print("\nYour turn: [bold]make demo FILE=talk.mp3[/]")
    return 0


def transcribe_files(files: list[str]) -> int:
    """Transcribe files as the command line does; return its exit status."""
    for file in files:
        command = command_for(file)
        console.print(f"$ {' '.join(command)}", style="bold", markup=False)
        status = subprocess.run([sys.executable, "-m", *command], check=False).returncode
        if status:
            return status
        name = Path(file).stem
        if (text := FOLDER / f"{name}.txt").exists():
            console.print(text.read_text(encoding="utf-8"), markup=False)
        show_files(name)
    return 0


def command_for(file: str) -> list[str]:
    """Return the command that writes text, subtitles, a JSON file and a timeline."""
    outputs = ("-f", "txt,srt,json", "--plot", "png", "-o", str(FOLDER))
    return ["whisperbatch", file, "--model", "base", *outputs]


def show_files(name: str) -> None:
    """Print the paths of the recording, its subtitles and its timeline."""
    for suffix in (".wav", ".srt", ".timeline.png"):
        if (path := FOLDER / f"{name}{suffix}").exists():
            console.print(f"  {path}", markup=False)


def show_hour(asr: wb.Transcriber, directory: Path) -> None:
    """Print the first sentences of an hour as they come, then where it is; stop it early."""
    with console.status("Fetching and building an hour of telephone announcements ..."):
        hour = segments.recording_of_sentences("en", 3600, seed=3)
        path = recordings.write(hour, directory / "hour.wav")
        del hour
    started = time.perf_counter()
    first = None
    with asr.stream(path, language="en") as stream, console.status("reading ...") as status:
        for number, segment in enumerate(stream):
            seconds, memory = time.perf_counter() - started, timing.resident()
            where = f"{clock(segment.end)} of 1:00:00, {memory:.0f} MB of memory"
            if first is None:
                first = f"First sentence after {seconds:.1f} s, with {memory:.0f} MB of memory."
            if number < FIRST_SENTENCES:
                print_sentence(f"{seconds:4.1f} s", Text(segment.text))
            status.update(f"{where}, after {seconds:.0f} s")
            if seconds > HOUR_FOR and number >= FIRST_SENTENCES:
                break
    console.print(f"{first} Stopped after {seconds:.0f} s: {where}.")


def show_languages(asr: wb.Transcriber, directory: Path) -> None:
    """Print sentences of five languages, with the language that was detected for each."""
    with console.status("Fetching and building a recording of five languages ..."):
        parts = (segments.recording_of_sentences(code, 11, seed=2) for code in speech.LANGUAGES)
        path = recordings.write(recordings.joined("languages", parts), directory / "languages.wav")
    for segment in asr.stream(path, multilingual=True):
        print_sentence(segment.language, Text(segment.text))


def show_call(asr: wb.Transcriber) -> None:
    """Print a call between two women, a colour for each speaker."""
    call = speech.telephone() / "sample.wav"
    transcript = asr.transcribe(call, diarize=True)
    colours = dict(zip(transcript.speakers, COLOURS, strict=False))
    for segment in transcript.segments:
        speaker = segment.speaker or ""
        style = colours.get(speaker, "")
        print_sentence(speaker, Text(segment.text, style=style), style)


def compare() -> None:
    """Transcribe a difficult recording with two programs, and mark the wrong words of both."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with console.status("Fetching and building the recording ..."):
        difficult = corpora.build(DIFFICULT)
        path = recordings.write(difficult, FOLDER / "difficult.wav")
    command = [*command_for(str(path)), "--language", "en"]
    with console.status("whisperbatch ..."):
        subprocess.run([sys.executable, "-m", *command], check=True, capture_output=True)
        ours = json.loads((FOLDER / "difficult.json").read_text(encoding="utf-8"))
    texts = {"whisperbatch": str(ours["text"])}
    with (
        console.status("faster-whisper ...") as status,
        systems.open_systems(OTHERS.values(), "base", wb.Options()) as others,
    ):
        for name, system in OTHERS.items():
            status.update(f"{name} ...")
            texts[name] = others[system](path, "en").text
    print_marked(difficult, texts)
    wrong = [scoring.word_error_rate(difficult.text, text).errors for text in texts.values()]
    console.print(
        f"\n[bold]{wrong[0]} of {len(scoring.words(difficult.text))} words wrong; faster-whisper: "
        f"{wrong[1]}, and {wrong[2]} in its batched mode[/] (same weights, beam 5)"
    )
    console.print("\nListen, and look at the subtitles and the timeline:")
    show_files(path.stem)
    console.print(f"This command wrote them: {' '.join(command)}", markup=False)


def print_marked(recording: recordings.Recording, texts: dict[str, str]) -> None:
    """Print the wrong words of each text, minute by minute."""
    truth = scoring.words(recording.text)
    marks = {name: mark_words(truth, scoring.words(text)) for name, text in texts.items()}
    legend = (style_mark(Mark(kind, 0, kind)) for kind in (MISSED, INVENTED))
    console.print(Text(" ").join([Text("Words that were"), *legend]))
    start = 0
    for number, description in enumerate(MINUTES):
        spoken = [u.text for u in recording.utterances if u.start // corpora.SECTION == number]
        end = start + len(scoring.words(" ".join(spoken)))
        console.print(f"\n[bold]{description}[/], {end - start} words")
        for name, all_marks in marks.items():
            print_sentence(
                name.ljust(max(map(len, marks))),
                excerpt(m for m in all_marks if start <= m.place < end),
            )
        start = end


def mark_words(truth: list[str], found: list[str]) -> list[Mark]:
    """Return the words of an alignment: right, missed and invented ones.

    A wrong word is a missed word and an invented word; the missed words come first.
    """
    if not found:
        return [Mark(MISSED, place, word) for place, word in enumerate(truth)]
    marks: list[Mark] = []
    invented: list[Mark] = []
    for chunk in jiwer.process_words(" ".join(truth), " ".join(found)).alignments[0]:
        places = range(chunk.ref_start_idx, chunk.ref_end_idx)
        if chunk.type == "equal":
            marks, invented = [*marks, *invented], []
        kind = RIGHT if chunk.type == "equal" else MISSED
        marks += [Mark(kind, place, truth[place]) for place in places]
        if chunk.type in ("substitute", "insert"):
            place = marks[-1].place if marks else 0
            words = found[chunk.hyp_start_idx : chunk.hyp_end_idx]
            invented += [Mark(INVENTED, place, word) for word in words]
    return [*marks, *invented]


def excerpt(marks: Iterable[Mark]) -> Text:
    """Return the wrong words with a few right words around them, or that all are right."""
    runs = [
        (kind, [mark.word for mark in run]) for kind, run in groupby(marks, lambda mark: mark.kind)
    ]
    if all(kind == RIGHT for kind, _ in runs):
        return Text("all right", style="green")
    shown: list[Text] = []
    for number, (kind, words) in enumerate(runs):
        first = [] if kind == RIGHT and number == 0 else words[:CONTEXT]
        last = [] if kind == RIGHT and number == len(runs) - 1 else words[-CONTEXT:]
        left_out = len(words) - len(first) - len(last)
        count = "..." if kind == RIGHT else f"... ({left_out} more) ..."
        text = " ".join([*first, count, *last] if left_out > 1 else words)
        shown.append(Text(text) if kind == RIGHT else style_mark(Mark(kind, 0, text)))
    return Text(" ").join(shown)


def style_mark(mark: Mark) -> Text:
    """Return a word in the colour of its kind, between signs where there are no colours."""
    if console.color_system is None:
        return Text(SIGNS[mark.kind].format(mark.word))
    return Text(mark.word, style=STYLES[mark.kind])


def print_sentence(name: str, text: Text, style: str = "") -> None:
    """Print a sentence behind its name, with a hanging indent."""
    row = Table.grid(padding=(0, 2))
    row.add_column(style=style, no_wrap=True)
    row.add_column()
    row.add_row(name, text)
    console.print(row)


def clock(seconds: float) -> str:
    """Return a time such as 12:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except wb.WhisperBatchError as error:
        sys.exit(f"demo: {error}")
