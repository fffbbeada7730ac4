"""Benchmarks of language detection and code-switching.

python -m benchmarks.languages                       # all four benchmarks, with base
python -m benchmarks.languages begins clips          # some of them
python -m benchmarks.languages switches --seeds 0 1 2 --model base

    begins      detect the language of recordings whose first 70 s are music or another language;
                also with faster-whisper's sequential mode, which uses only the first 30 s
    clips       detect the language of short clips in nine languages, and of all clips of each
                language joined
    seek        time to detect the language of 10 minutes and of 3 hours, interleaved
    switches    transcribe recordings in which five languages alternate every 40 to 90 s: the share
                of speech in the right language; word errors, also of each block transcribed alone
                with its language given; letters of foreign scripts; time

All benchmarks run in int8 on the CPU.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np

import whisperbatch as wb
from benchmarks import clips as speech_clips
from benchmarks import recordings, scoring, speech
from benchmarks.recordings import SAMPLING_RATE, Recording, Samples, Utterance
from benchmarks.scoring import Score
from whisperbatch.models.registry import find_model
from whisperbatch.text.languages import foreign_letters

OPENING = 70  # seconds of music or of another language
ROUNDS = 3  # repetitions of each timing


def begins(asr: wb.Transcriber, model: str, seeds: Sequence[int]) -> None:
    """Print the language that each program detects in each recording."""
    from faster_whisper import WhisperModel  # noqa: PLC0415 - only this benchmark needs it

    reference = WhisperModel(str(find_model(model)), device="cpu", compute_type="int8")
    print(f"{'first 70 s':12} {'then':6} {'whisperbatch':>16} {'first 30 s':>16}")
    correct = [0, 0]
    for seed in seeds:
        for opening, language in openings():
            samples = opened_by(opening, language, seed)
            ours = asr.detect_language(samples)
            _, theirs = reference.transcribe(samples.astype(np.float32) / 32768)
            correct[0] += ours.language == language
            correct[1] += theirs.language == language
            print(
                f"{opening:12} {language:6} "
                f"{f'{ours.language} {ours.probability:.2f}':>16} "
                f"{f'{theirs.language} {theirs.language_probability:.2f}':>16}",
                flush=True,
            )
    total = len(seeds) * len(list(openings()))
    print(f"right: {correct[0]} and {correct[1]} of {total}")


def openings() -> Iterable[tuple[str, str]]:
    """Yield the opening of each recording ("music" or a language) and the language after it."""
    languages = speech.LANGUAGES
    for number, language in enumerate(languages):
        yield "music", language
        yield languages[(number + 1) % len(languages)], language


def opened_by(opening: str, language: str, seed: int) -> Samples:
    """Return the samples of the opening and then of five minutes of prompts."""
    if opening == "music":
        tracks = [speech_clips.decode(path) for path in speech.music()]
        first = tracks[seed % len(tracks)][: OPENING * SAMPLING_RATE]
    else:
        first = recordings.prompts(opening, OPENING, seed).samples
    return np.concatenate((first, recordings.prompts(language, 300, seed).samples))


def clips(asr: wb.Transcriber) -> None:
    """Print a line for each of nine languages."""
    samples_by_language: dict[str, list[Samples]] = {}
    for clip in speech_clips.audioeval_clips():
        samples_by_language.setdefault(clip.utterances[0].language, []).append(clip.samples)
    print(f"{'language':8} {'clips':>6} {'right':>6} {'together':>9} {'probability':>12}")
    for language, samples in samples_by_language.items():
        correct = sum(asr.detect_language(clip).language == language for clip in samples)
        joined = asr.detect_language(np.concatenate(samples))
        print(
            f"{language:8} {len(samples):6} {correct:6} {joined.language or '-':>9} "
            f"{joined.probability:12.2f}",
            flush=True,
        )


def seek(asr: wb.Transcriber) -> None:
    """Print the median detection times of a short and a long file, and their ratio."""
    with tempfile.TemporaryDirectory() as directory:
        short, long = Path(directory, "short.wav"), Path(directory, "long.wav")
        recordings.long_wav(short, 1 / 6)
        recordings.long_wav(long, 3.0)
        took: dict[Path, list[float]] = {short: [], long: []}
        for path in (short, long):  # fill the disk cache, and load the VAD
            asr.detect_language(path)
        for _ in range(ROUNDS):
            for path, times in took.items():
                times.append(timed(lambda path=path: asr.detect_language(path)))  # type: ignore[misc]
    medians = [statistics.median(times) for times in took.values()]
    print(f"10 minutes {medians[0]:.2f} s, 3 hours {medians[1]:.2f} s")
    print(f"ratio {medians[1] / medians[0]:.2f}")


def timed(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def switches(asr: wb.Transcriber, seeds: Sequence[int], seconds: float) -> None:
    """Print a line for each recording, and a line for all recordings."""
    print(
        f"{'seed':5} {'right %':>8} {'WER %':>7} {'alone %':>8} {'foreign':>8} "
        f"{'time':>6} {'one language':>13}"
    )
    switched, alone, shares = [], [], []
    for seed in seeds:
        recording = recordings.switching(duration=seconds, seed=seed)
        started = time.perf_counter()
        transcript = asr.transcribe(recording.samples, multilingual=True)
        took = time.perf_counter() - started
        single = timed(lambda: asr.transcribe(recording.samples, language="en"))  # noqa: B023
        blocks = recording.blocks()
        errors = reduce(add, (block_errors(transcript, block) for block in blocks))
        block_alone = reduce(add, (errors_alone(asr, recording, block) for block in blocks))
        share = in_language(transcript, recording.utterances)
        letters = sum(len(foreign_letters(s.text, s.language)) for s in transcript.segments)
        print(
            f"{seed:<5} {100 * share:8.1f} {100 * errors.rate:7.2f} {100 * block_alone.rate:8.2f} "
            f"{letters:8} {took:6.1f} {single:13.1f}",
            flush=True,
        )
        switched.append(errors)
        alone.append(block_alone)
        shares.append(share)
    total, total_alone = reduce(add, switched), reduce(add, alone)
    print(
        f"{'all':5} {100 * statistics.mean(shares):8.1f} {100 * total.rate:7.2f} "
        f"{100 * total_alone.rate:8.2f}"
    )


def in_language(transcript: wb.Transcript, utterances: Iterable[Utterance]) -> float:
    """Return the fraction of the utterances' time whose segments have the right language.

    Only time that is covered by both an utterance and a segment counts.
    """
    correct = total = 0.0
    for utterance in utterances:
        for segment in transcript.segments:
            overlap = min(segment.end, utterance.end) - max(segment.start, utterance.start)
            if overlap > 0:
                total += overlap
                correct += overlap * (segment.language == utterance.language)
    return correct / total


def block_errors(transcript: wb.Transcript, block: Utterance) -> Score:
    """Return the word errors of the segments whose middle is in a block."""
    texts = [
        segment.text
        for segment in transcript.segments
        if block.start <= (segment.start + segment.end) / 2 < block.end
    ]
    return scoring.word_error_rate(block.text, " ".join(texts), block.language)


def errors_alone(asr: wb.Transcriber, recording: Recording, block: Utterance) -> Score:
    """Return the word errors of a block that is transcribed alone, with its language given."""
    first, last = int(block.start * SAMPLING_RATE), int(block.end * SAMPLING_RATE)
    transcript = asr.transcribe(recording.samples[first:last], language=block.language)
    return scoring.word_error_rate(block.text, transcript.text, block.language)


def main() -> None:
    """Run the benchmarks named on the command line."""
    parser = argparse.ArgumentParser(description="Language detection and code-switching.")
    kinds = ("begins", "clips", "seek", "switches")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(kinds))
    parser.add_argument("--model", default="base")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--seconds", type=float, default=600.0, help="of a switching recording")
    arguments = parser.parse_args()
    if unknown := set(arguments.kinds) - set(kinds):
        parser.error(f"{', '.join(unknown)}: the kinds are {', '.join(kinds)}")
    with wb.load(arguments.model, device="cpu", compute_type="int8") as asr:
        for kind in arguments.kinds or kinds:
            print(f"\n{kind}")
            if kind == "begins":
                begins(asr, arguments.model, arguments.seeds[:1])
            elif kind == "clips":
                clips(asr)
            elif kind == "seek":
                seek(asr)
            else:
                switches(asr, arguments.seeds, arguments.seconds)


if __name__ == "__main__":
    main()
