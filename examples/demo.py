"""Transcribe a file, or a built recording in nine languages, and print segments as they come.

python examples/demo.py            # or: make demo; prints word error rates and the speed
python examples/demo.py talk.mp3   # or: make demo FILE=talk.mp3
"""

import sys
import tempfile
import time
from pathlib import Path

import whisperbatch as wb

sys.path.insert(0, str(Path(__file__).parents[1]))  # for benchmarks/, which is not installed

from benchmarks import recordings, scoring, speech


def notice(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def format_time(seconds: float) -> str:
    return f"{int(seconds // 60):02}:{seconds % 60:06.3f}"


def print_segment(segment: wb.Segment) -> None:
    times = f"[{format_time(segment.start)} -> {format_time(segment.end)}]"
    print(times, segment.language, segment.text.strip(), flush=True)


def load_model() -> wb.Transcriber:
    notice("Loading the model (the first run compiles it for this processor) ...")
    return wb.load("base")


def transcribe_file(asr: wb.Transcriber, path: str) -> None:
    for segment in asr.stream(path):
        print_segment(segment)


def transcribe_built(asr: wb.Transcriber, path: Path) -> None:
    """Transcribe the built recording language by language, with each language given."""
    notice("Building the recording (the first run fetches its speech) ...")
    recording = recordings.demo()
    recordings.write(recording, path)
    scores: dict[str, scoring.Score] = {}
    started = time.perf_counter()
    for block in recording.blocks():
        texts = []
        clip = (block.start, block.end)
        for segment in asr.stream(path, language=block.language, clip_timestamps=(clip,)):
            print_segment(segment)
            texts.append(segment.text)
        score = scoring.word_error_rate(block.text, " ".join(texts), block.language)
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
        with load_model() as asr, tempfile.TemporaryDirectory() as directory:
            for path in files:
                transcribe_file(asr, path)
            if not files:
                transcribe_built(asr, Path(directory) / "demo.wav")
    except (wb.WhisperBatchError, speech.SpeechError) as error:
        sys.exit(f"demo: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
