"""Transcribe as it is read: a built recording in nine languages, scored, or a file of your own.

python examples/demo.py            # or: make demo
python examples/demo.py talk.mp3   # or: make demo FILE=talk.mp3
"""

import sys
import tempfile
import time
from pathlib import Path

import whisperbatch as wb

sys.path.insert(0, str(Path(__file__).parents[1]))  # for benchmarks/, which is not installed

from benchmarks import recordings, scoring, speech


def clock(seconds: float) -> str:
    return f"{int(seconds // 60):02}:{seconds % 60:06.3f}"


def show(segment: wb.Segment) -> None:
    times = f"[{clock(segment.start)} -> {clock(segment.end)}]"
    print(times, segment.language, segment.text.strip(), flush=True)


def transcribe_file(asr: wb.Transcriber, path: str) -> None:
    for segment in asr.stream(path):
        show(segment)


def transcribe_built(asr: wb.Transcriber, path: Path) -> None:
    """Ask for each language's part of the recording by itself, and say which language it is."""
    recording = recordings.demo()
    recordings.write(recording, path)
    scores: dict[str, scoring.Score] = {}
    started = time.perf_counter()
    for block in recording.blocks():
        heard = []
        part = (block.start, block.end)
        for segment in asr.stream(path, language=block.language, clip_timestamps=(part,)):
            show(segment)
            heard.append(segment.text)
        score = scoring.word_error_rate(block.text, " ".join(heard), block.language)
        scores[block.language] = scores.get(block.language, scoring.Score()) + score
    took = time.perf_counter() - started

    print("\nlanguage  errors / words (characters in ja and zh)")
    for language, score in scores.items():
        print(f"{language:8}  {score.errors:6} / {score.words:<5} {score.rate:6.1%}")
    total = sum(scores.values(), scoring.Score())
    print(f"{'all':8}  {total.errors:6} / {total.words:<5} {total.rate:6.1%}")
    speed = recording.duration / took
    print(f"{recording.duration:.0f} s of sound in {took:.1f} s: {speed:.0f} times real time")


def main(files: list[str]) -> None:
    try:
        with wb.load("base") as asr, tempfile.TemporaryDirectory() as directory:
            for path in files:
                transcribe_file(asr, path)
            if not files:
                transcribe_built(asr, Path(directory) / "demo.wav")
    except (wb.WhisperBatchError, speech.SpeechError) as error:
        sys.exit(f"demo: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
