"""Languages: detection over whole recordings, in nine languages, in three hours; and switches.

python -m benchmarks.languages                       # all four, base
python -m benchmarks.languages begins clips          # some
python -m benchmarks.languages switches --seeds 0 1 2 --model base

    begins      the language of recordings whose first 70 s are music or another language, and
                what faster-whisper's sequential mode says, which listens to the first 30 s
    clips       of short clips in nine languages, and of all clips of each one after the other
    seek        time to detect the language of 10 minutes and of 3 hours, interleaved
    switches    five languages in turn, 40 to 90 s each: share of the speech in the right language,
                word errors beside those of each block by itself with its language given, letters
                of foreign scripts, and what it costs

All in int8 on the CPU.
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
from benchmarks import recordings, scoring, speech
from benchmarks.recordings import SAMPLING_RATE, Recording, Samples, Utterance
from benchmarks.scoring import Score
from whisperbatch.models.registry import find_model
from whisperbatch.text.scripts import foreign

OPENING = 70  # seconds
ROUNDS = 3


def begins(asr: wb.Transcriber, model: str, seeds: Sequence[int]) -> None:
    """Print what both say of each recording."""
    from faster_whisper import WhisperModel  # noqa: PLC0415 - only for this

    rival = WhisperModel(str(find_model(model)), device="cpu", compute_type="int8")
    print(f"{'first 70 s':12} {'then':6} {'whisperbatch':>16} {'first 30 s':>16}")
    right = [0, 0]
    for seed in seeds:
        for opening, language in openings():
            samples = opened_by(opening, language, seed)
            ours = asr.detect_language(samples)
            _, theirs = rival.transcribe(samples.astype(np.float32) / 32768)
            right[0] += ours.language == language
            right[1] += theirs.language == language
            print(
                f"{opening:12} {language:6} "
                f"{f'{ours.language} {ours.probability:.2f}':>16} "
                f"{f'{theirs.language} {theirs.language_probability:.2f}':>16}",
                flush=True,
            )
    total = len(seeds) * len(list(openings()))
    print(f"right: {right[0]} and {right[1]} of {total}")


def openings() -> Iterable[tuple[str, str]]:
    """What a recording begins with, and the language of the rest."""
    languages = speech.LANGUAGES
    for number, language in enumerate(languages):
        yield "music", language
        yield languages[(number + 1) % len(languages)], language


def opened_by(opening: str, language: str, seed: int) -> Samples:
    """Music or another language, then five minutes of prompts."""
    if opening == "music":
        pieces = [recordings.decode(path) for path in speech.music()]
        first = pieces[seed % len(pieces)][: OPENING * SAMPLING_RATE]
    else:
        first = recordings.prompts(opening, OPENING, seed).samples
    return np.concatenate((first, recordings.prompts(language, 300, seed).samples))


def clips(asr: wb.Transcriber) -> None:
    """Print a line for each of nine languages."""
    spoken: dict[str, list[Samples]] = {}
    for clip in recordings.audioeval():
        spoken.setdefault(clip.utterances[0].language, []).append(clip.samples)
    print(f"{'language':8} {'clips':>6} {'right':>6} {'together':>9} {'probability':>12}")
    for language, samples in spoken.items():
        right = sum(asr.detect_language(one).language == language for one in samples)
        whole = asr.detect_language(np.concatenate(samples))
        print(
            f"{language:8} {len(samples):6} {right:6} {whole.language or '-':>9} "
            f"{whole.probability:12.2f}",
            flush=True,
        )


def seek(asr: wb.Transcriber) -> None:
    """Print the median time for a short and a long file, and their ratio."""
    with tempfile.TemporaryDirectory() as directory:
        short, long = Path(directory, "short.wav"), Path(directory, "long.wav")
        recordings.long_wav(short, 1 / 6)
        recordings.long_wav(long, 3.0)
        took: dict[Path, list[float]] = {short: [], long: []}
        for path in (short, long):  # the disk's cache, and the detector
            asr.detect_language(path)
        for _ in range(ROUNDS):
            for path, times in took.items():
                times.append(timed(lambda path=path: asr.detect_language(path)))  # type: ignore[misc]
    medians = [statistics.median(times) for times in took.values()]
    print(f"10 minutes {medians[0]:.2f} s, 3 hours {medians[1]:.2f} s")
    print(f"ratio {medians[1] / medians[0]:.2f}")


def timed(call: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def switches(asr: wb.Transcriber, seeds: Sequence[int], seconds: float) -> None:
    """Print a line for each recording, and one for all."""
    print(
        f"{'seed':5} {'right %':>8} {'WER %':>7} {'alone %':>8} {'foreign':>8} "
        f"{'time':>6} {'one language':>13}"
    )
    hybrid, alone, shares = [], [], []
    for seed in seeds:
        recording = recordings.switching(duration=seconds, seed=seed)
        started = time.perf_counter()
        found = asr.transcribe(recording.samples, multilingual=True)
        took = time.perf_counter() - started
        single = timed(lambda: asr.transcribe(recording.samples, language="en"))  # noqa: B023
        blocks = recording.blocks()
        own = reduce(add, (block_errors(found, block) for block in blocks))
        given = reduce(add, (errors_alone(asr, recording, block) for block in blocks))
        share = in_language(found, recording.utterances)
        letters = sum(len(foreign(s.text, s.language)) for s in found.segments)
        print(
            f"{seed:<5} {100 * share:8.1f} {100 * own.rate:7.2f} {100 * given.rate:8.2f} "
            f"{letters:8} {took:6.1f} {single:13.1f}",
            flush=True,
        )
        hybrid.append(own)
        alone.append(given)
        shares.append(share)
    total, apart = reduce(add, hybrid), reduce(add, alone)
    print(
        f"{'all':5} {100 * statistics.mean(shares):8.1f} {100 * total.rate:7.2f} "
        f"{100 * apart.rate:8.2f}"
    )


def in_language(found: wb.Transcript, utterances: Iterable[Utterance]) -> float:
    """Of the time that utterances and segments share, how much is in the utterance's language."""
    right = shared = 0.0
    for spoken in utterances:
        for segment in found.segments:
            both = min(segment.end, spoken.end) - max(segment.start, spoken.start)
            if both > 0:
                shared += both
                right += both * (segment.language == spoken.language)
    return right / shared


def block_errors(found: wb.Transcript, block: Utterance) -> Score:
    """Of the segments whose middle lies in a block."""
    said = [s.text for s in found.segments if block.start <= (s.start + s.end) / 2 < block.end]
    return scoring.word_error_rate(block.text, " ".join(said), block.language)


def errors_alone(asr: wb.Transcriber, recording: Recording, block: Utterance) -> Score:
    """Of a block that is transcribed by itself, in its language."""
    first, last = int(block.start * SAMPLING_RATE), int(block.end * SAMPLING_RATE)
    found = asr.transcribe(recording.samples[first:last], language=block.language)
    return scoring.word_error_rate(block.text, found.text, block.language)


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description="Language detection and code-switching.")
    kinds = ("begins", "clips", "seek", "switches")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(kinds))
    parser.add_argument("--model", default="base")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--seconds", type=float, default=600.0, help="of a switching recording")
    chosen = parser.parse_args()
    if unknown := set(chosen.kinds) - set(kinds):
        parser.error(f"{', '.join(unknown)}: the kinds are {', '.join(kinds)}")
    with wb.load(chosen.model, device="cpu", compute_type="int8") as asr:
        for kind in chosen.kinds or kinds:
            print(f"\n{kind}")
            if kind == "begins":
                begins(asr, chosen.model, chosen.seeds[:1])
            elif kind == "clips":
                clips(asr)
            elif kind == "seek":
                seek(asr)
            else:
                switches(asr, chosen.seeds, chosen.seconds)


if __name__ == "__main__":
    main()
