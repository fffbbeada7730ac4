"""Errors and speed beside faster-whisper's two modes, interleaved, on the same weights and cores.

python -m benchmarks.rivals                             # prompts:en:600:0, one round
python -m benchmarks.rivals --rounds 3 --recordings dense:en:600:0 sparse:en:600:0

All read the same wav file from disk; the time is that from the call to the last segment, reading
the file, voice activity detection and features included, loading the model not.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from faster_whisper import BatchedInferencePipeline, WhisperModel

import whisperbatch as wb
from benchmarks import corpora, recordings, scoring
from whisperbatch.models import find_model

Heard = tuple[str, list[float]]  # text, and when segments start


def contestants(model: str, asr: wb.Transcriber) -> dict[str, Callable[[str, str], Heard]]:
    """Name to a function of path and language."""
    rival = WhisperModel(str(find_model(model)), device="cpu", compute_type="int8")
    batched = BatchedInferencePipeline(rival)

    def ours(beam: int) -> Callable[[str, str], Heard]:
        def run(path: str, language: str) -> Heard:
            found = asr.transcribe(path, language=language, beam_size=beam)
            return found.text, [segment.start for segment in found.segments]

        return run

    def theirs(beam: int, batch_size: int | None) -> Callable[[str, str], Heard]:
        def run(path: str, language: str) -> Heard:
            if batch_size:
                segments, _ = batched.transcribe(
                    path, language=language, beam_size=beam, batch_size=batch_size
                )
            else:
                segments, _ = rival.transcribe(path, language=language, beam_size=beam)
            found = list(segments)
            return " ".join(s.text for s in found), [s.start for s in found]

        return run

    return {
        "whisperbatch, beam 5": ours(5),
        "whisperbatch, beam 1": ours(1),
        "faster-whisper batched 8, beam 5": theirs(5, 8),
        "faster-whisper batched 8, beam 1": theirs(1, 8),
        "faster-whisper sequential, beam 5": theirs(5, None),
    }


def compare(
    runs: dict[str, Callable[[str, str], Heard]], recording: recordings.Recording, rounds: int
) -> None:
    """Print a line for each contestant."""
    language = recording.utterances[0].language
    took: dict[str, list[float]] = {name: [] for name in runs}
    heard: dict[str, Heard] = {}
    with tempfile.TemporaryDirectory() as directory:
        path = str(recordings.write(recording, Path(directory, "recording.wav")))
        for _ in range(rounds):
            for name, run in runs.items():
                started = time.perf_counter()
                heard[name] = run(path, language)
                took[name].append(time.perf_counter() - started)
    first = median(took[next(iter(took))])
    for name, (text, starts) in heard.items():
        score = scoring.word_error_rate(recording.text, text, language)
        errors = scoring.start_errors(recording.utterances, starts)
        near = sum(error <= 0.5 for error in errors) / len(errors) if errors else float("nan")
        seconds = median(took[name])
        print(
            f"{recording.name:20} {name:34} {score.rate:6.2%} {near:7.1%} "
            f"{recording.duration / seconds:6.1f}x {seconds / first:6.2f}",
            flush=True,
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Beside faster-whisper, on the same cores.")
    parser.add_argument("--model", default="base")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--recordings", nargs="+", type=corpora.argument, default=["prompts:en:600:0"]
    )
    arguments = parser.parse_args()
    print(f"{'recording':20} {'':34} {'WER':>6} {'<0.5 s':>7} {'speed':>7} {'time':>6}")
    with wb.load(arguments.model, device="cpu", compute_type="int8") as asr:
        runs = contestants(arguments.model, asr)
        for name in arguments.recordings:
            compare(runs, corpora.build(name), arguments.rounds)


if __name__ == "__main__":
    main()
