"""Do segments end where sentences end? Compares segments with punctuated truth.

The recordings are prompts whose text is complete sentences, in the five languages of the prompts,
with pauses of 0.3 to 1 s; and the utterances of a novel ("read"), each taken for a sentence. Menus
("press 1 to ..., 2 to ...") are left out, because they are read as a list of sentences. The words
of the segments are aligned with the words of the truth, so the model's own punctuation does not
count. With `--speed 0.8`, the speech is slower and lower, and its pauses are longer.

python -m benchmarks.segments                         # phrases and sentences, five minutes
python -m benchmarks.segments --recordings en fr --seconds 600 --segments sentence
"""

import argparse
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

import jiwer
import numpy as np

import whisperbatch as wb
from benchmarks import clips, recordings, scoring, speech
from benchmarks.recordings import Recording, random_from, shuffled
from whisperbatch.types import Segment

SENTENCES: Final = re.compile(r"[A-ZÀ-ÝА-Я¿¡].*\w[.?!]", re.DOTALL)
SENTENCE_END: Final = re.compile(r"[.?!](?=\s|$)")
MAX_COMMAS: Final = 2  # of a prompt; a menu has more
PAUSES: Final = (0.3, 1.0)  # seconds
READ: Final = "read"


@dataclass(frozen=True, slots=True)
class Result:
    """How the segments of a recording fit its sentences.

    Attributes:
        segments: number of segments.
        correct: number of segments that end where a sentence ends.
        sentences: number of sentences.
        found: number of sentences at whose end a segment ends.
        durations: of the segments, in seconds.
    """

    segments: int
    correct: int
    sentences: int
    found: int
    durations: tuple[float, ...]


def recording_of_sentences(language: str, seconds: float, seed: int) -> Recording:
    """Build a recording of prompts whose text is one or more complete sentences."""
    rng = random_from(seed)
    complete = tuple(
        clip
        for clip in clips.asterisk_clips(language)
        if SENTENCES.fullmatch(text := clip.utterances[0].text.strip())
        and text.count(",") <= MAX_COMMAS
    )
    paused = ((rng.uniform(*PAUSES), clip) for clip in shuffled(complete, rng))
    return recordings.assemble(f"sentences-{language}", paused, seed, seconds)


def build(name: str, seconds: float, seed: int) -> Recording:
    """Build a recording: the code of a language, or "read"."""
    if name == READ:
        return recordings.read_speech(seconds, seed)
    return recording_of_sentences(name, seconds, seed)


def slowed(recording: Recording, speed: float) -> Recording:
    """Return the recording played at another speed, as a tape; the times are scaled, too."""
    count = round(len(recording.samples) / speed)
    positions = np.linspace(0, len(recording.samples) - 1, count)
    samples = np.interp(positions, np.arange(len(recording.samples)), recording.samples)
    utterances = tuple(
        replace(utterance, start=utterance.start / speed, end=utterance.end / speed)
        for utterance in recording.utterances
    )
    return replace(recording, samples=samples.astype(np.int16), utterances=utterances)


def compare(recording: Recording, segments: Sequence[Segment], language: str) -> Result:
    """Return how the ends of segments fit the ends of sentences."""
    truth, sentence_ends = _words_and_ends(
        [
            sentence
            for utterance in recording.utterances
            for sentence in SENTENCE_END.split(utterance.text)
        ],
        language,
    )
    words, segment_ends = _words_and_ends([segment.text for segment in segments], language)
    aligned = jiwer.process_words(" ".join(truth), " ".join(words)).alignments[0]
    position = {0: 0}  # number of words so far, in the segments: in the truth
    for chunk in aligned:
        for offset in range(1, chunk.hyp_end_idx - chunk.hyp_start_idx + 1):
            position[chunk.hyp_start_idx + offset] = min(
                chunk.ref_start_idx + offset, chunk.ref_end_idx
            )
    ends = [position[end] for end in segment_ends]
    return Result(
        segments=len(segments),
        correct=sum(end in sentence_ends for end in ends),
        sentences=len(sentence_ends),
        found=len(sentence_ends & set(ends)),
        durations=tuple(segment.end - segment.start for segment in segments),
    )


def _words_and_ends(texts: Sequence[str], language: str) -> tuple[list[str], set[int]]:
    """Return the words of all texts, and the number of words up to the end of each text."""
    words: list[str] = []
    ends = set()
    for text in texts:
        words += scoring.words(text, language)
        ends.add(len(words))
    return words, ends - {0}


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table; return exit code 0, or 2 if the speech cannot be fetched."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.segments", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    names = (*speech.LANGUAGES, READ)
    parser.add_argument("--recordings", nargs="+", choices=names, default=names)
    parser.add_argument("--segments", nargs="+", default=("phrase", "sentence"))
    parser.add_argument("--model", default="base")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--speed", type=float, default=1.0)
    arguments = parser.parse_args(argv)
    print("| | segments | end with a sentence | sentences found | median | longest | first |")
    print("|---|---|---|---|---|---|---|")
    with wb.load(arguments.model) as asr:
        for name in arguments.recordings:
            try:
                recording = build(name, arguments.seconds, arguments.seed)
                recording = slowed(recording, arguments.speed)
            except speech.SpeechError as error:
                print(f"segments: {error}", file=sys.stderr)
                return 2
            language = "en" if name == READ else name
            for kind in arguments.segments:
                started = time.perf_counter()
                first = 0.0
                segments = []
                for segment in asr.stream(recording.samples, language=language, segments=kind):
                    first = first or time.perf_counter() - started
                    segments.append(segment)
                _print_row(f"{name}, {kind}", compare(recording, segments, language), first)
    return 0


def _print_row(name: str, result: Result, first: float) -> None:
    print(
        f"| {name} | {result.segments} | {result.correct / max(result.segments, 1):.0%} "
        f"| {result.found / max(result.sentences, 1):.0%} | {median(result.durations):.1f} s "
        f"| {max(result.durations):.1f} s | {first:.1f} s |",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
