"""Measure `second_opinion_threshold` for a model: the value that separates speech from sounds.

python -m benchmarks.lost_speech.calibration --model tiny.en
python -m benchmarks.lost_speech.calibration --model large-v3 --minutes 20 --json large-v3.json

The recordings are those of `benchmarks.lost_speech`. In each recording, all regions that the
stage of the second opinion would check are decoded as the stage decodes them, without its limit of
work. A region is speech if utterances fill at least half of it, and non-speech if it has no
utterance; other regions are left out.

The first table shows the average log-probabilities of their texts; "plausible" texts pass all rules
of the stage but the threshold. The second table shows, for several thresholds, how many seconds of
the rejected speech are recovered, and how many words are invented per minute without speech.

The recommended threshold is set on the development half of the recordings. The test half, with
other words and sounds, shows what the threshold is worth. An English-only model is measured on
English recordings.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

import whisperbatch as wb
from benchmarks import corpora, speech
from benchmarks.arguments import require_directories
from benchmarks.lost_speech.__main__ import CORPORA, HALVES, minutes, recording_names
from benchmarks.recordings import Recording, gaps
from whisperbatch.decoding.audit import normalize_words
from whisperbatch.decoding.engine_options import options_for
from whisperbatch.errors import WhisperBatchError
from whisperbatch.features import feature_extractor
from whisperbatch.options import Options
from whisperbatch.protocols import Vad
from whisperbatch.scheduling import RunShare, Scheduler, SharedModel
from whisperbatch.second_opinion.checks import find_possible_speech, proves_speech
from whisperbatch.second_opinion.regions import MIN_REGION, RegionFinder
from whisperbatch.second_opinion.stage import RegionDecoder
from whisperbatch.types import Chunk, Samples, SpeechSpan, to_seconds
from whisperbatch.vad import open_vad

MAX_INVENTED: Final = 0.1  # words per minute: half of what the project allows, for other sounds
KEPT: Final = 0.95  # share of the recoverable speech that the highest good threshold recovers
LOWEST: Final = -1.0  # Whisper's own threshold, below which no text is trusted
THRESHOLDS: Final = tuple(round(-1.0 + 0.1 * step, 1) for step in range(9))
MIN_SPOKEN: Final = 0.5  # share of a region of speech that is within utterances
QUANTILES: Final = (0.0, 0.1, 0.5, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class CheckedRegion:
    """A region that the VAD rejects, with the text that the model finds in it.

    Attributes:
        recording: name of the recording.
        start: start in seconds.
        end: end in seconds.
        avg_logprob: average log-probability of the text.
        words: number of words.
        plausible: whether the text passes all rules except the threshold.
        spoken: share of the region that is within utterances.
        text: the text.
    """

    recording: str
    start: float
    end: float
    avg_logprob: float
    words: int
    plausible: bool
    spoken: float
    text: str

    @property
    def is_speech(self) -> bool:
        """Whether utterances fill at least half of the region."""
        return self.spoken >= MIN_SPOKEN


@dataclass(frozen=True, slots=True)
class Half:
    """The regions of one half of the recordings.

    Attributes:
        regions: the regions that pass the filter of the stage, with their text.
        silence: minutes without speech in the recordings.
        speech_found: seconds of speech in regions before the filter.
        noise_found: seconds of regions without speech before the filter.
    """

    regions: tuple[CheckedRegion, ...]
    silence: float
    speech_found: float = 0.0
    noise_found: float = 0.0

    def __add__(self, other: "Half") -> "Half":
        return Half(
            self.regions + other.regions,
            self.silence + other.silence,
            self.speech_found + other.speech_found,
            self.noise_found + other.noise_found,
        )

    def recovered(self, threshold: float) -> float:
        """Return the share of the seconds of rejected speech that pass."""
        rejected = [region for region in self.regions if region.is_speech]
        seconds = sum(region.end - region.start for region in rejected)
        accepted = [s for s in rejected if s.plausible and s.avg_logprob >= threshold]
        return sum(s.end - s.start for s in accepted) / seconds if seconds else 0.0

    def invented(self, threshold: float) -> float:
        """Return the words per minute without speech that pass."""
        words = sum(s.words for s in self.plausible_noise() if s.avg_logprob >= threshold)
        return words / self.silence if self.silence else 0.0

    def plausible_noise(self) -> list[CheckedRegion]:
        """Return the regions without speech that only the threshold can reject."""
        return [region for region in self.regions if not region.spoken and region.plausible]


def recommend(half: Half) -> float:
    """Return a threshold between the values that invent words and the values that lose speech.

    From the lowest threshold at which at most `MAX_INVENTED` words per minute pass, to the highest
    threshold that recovers nearly the same speech, every value is as good on these recordings. The
    middle of this range leaves room for other recordings.

    Raises:
        CorpusError: the VAD rejects no speech in these recordings.
    """
    noise = {region.avg_logprob for region in half.plausible_noise()}
    too_low = [value for value in noise if half.invented(value) > MAX_INVENTED]
    lowest = max([LOWEST, *too_low])
    if not half.recovered(lowest):
        raise corpora.CorpusError("no region of rejected speech is recovered; use more --minutes")
    enough = KEPT * half.recovered(lowest)
    speech_values = [region.avg_logprob for region in half.regions if region.is_speech]
    highest = max(value for value in speech_values if half.recovered(value) >= enough)
    return round((lowest + max(highest, lowest)) / 2, 2)


def find_regions(
    samples: Samples, vad: Vad, options: Options
) -> tuple[list[SpeechSpan], list[SpeechSpan]]:
    """Return the regions that the VAD rejects, and their parts that pass the stage's filter."""
    finder = RegionFinder(options, vad.hop)
    found = [region for block in vad([samples]) for region in finder.push(block)]
    regions, parts = [], []
    for region in (*found, *finder.finish()):
        start, end = region.start * vad.hop, min(region.end * vad.hop, len(samples))
        regions.append(SpeechSpan(start, end))
        parts += [
            SpeechSpan(start + part.start, start + part.end)
            for part in find_possible_speech(vad, samples[start:end], MIN_REGION)
        ]
    return regions, parts


def check(
    recording: Recording, language: str, vad: Vad, decoder: RegionDecoder, options: Options
) -> Half:
    """Decode all regions of a recording that pass the filter; compare them with its truth."""
    samples = (recording.samples / 32768).astype(np.float32)
    regions, parts = find_regions(samples, vad, options)
    shares = [(span, spoken_share(recording, span)) for span in regions]
    chunks = [Chunk(0, 0, (span,), (span,), samples[span.start : span.end]) for span in parts]
    silence = sum(end - start for start, end in gaps(recording.utterances, recording.duration))
    return Half(
        tuple(
            CheckedRegion(
                recording.name,
                to_seconds(decoded.chunk.start),
                to_seconds(decoded.chunk.end),
                decoded.hypothesis.avg_logprob,
                len([word for word in normalize_words(decoded.words) if word]),
                proves_speech(decoded, -np.inf),
                spoken_share(recording, SpeechSpan(decoded.chunk.start, decoded.chunk.end)),
                decoded.text,
            )
            for decoded in (decoder(chunks, language) if chunks else ())
        ),
        silence / 60,
        sum(to_seconds(span.length) for span, share in shares if share >= MIN_SPOKEN),
        sum(to_seconds(span.length) for span, share in shares if not share),
    )


def spoken_share(recording: Recording, span: SpeechSpan) -> float:
    """Return which share of a range is within utterances."""
    start, end = to_seconds(span.start), to_seconds(span.end)
    silent = sum(
        max(min(end, gap_end) - max(start, gap_start), 0.0)
        for gap_start, gap_end in gaps(recording.utterances, recording.duration)
    )
    return max(1 - silent / (end - start), 0.0)


def measure_half(asr: wb.Transcriber, names: Sequence[str]) -> Half:
    """Check all recordings of a half."""
    engine = asr.engine
    options = options_for(engine, Options())
    vad = open_vad(options)
    extractor = feature_extractor(options.features, engine.n_mels)
    scheduler, share = Scheduler(engine), RunShare()
    decoder = RegionDecoder(SharedModel(scheduler, share, options), extractor, options)
    total = Half((), 0.0)
    with scheduler.running(share):
        for name in names:
            half = check(corpora.build(name), corpora.parse(name)[1], vad, decoder, options)
            print(f"{name}: {len(half.regions)} regions", file=sys.stderr, flush=True)
            total += half
    return total


def report(halves: dict[str, Half], recommended: float, default: float) -> Iterator[str]:
    """Yield the lines of both tables."""
    titles = " ".join(f"{f'{100 * q:g} %':>7}" for q in QUANTILES)
    yield f"{'regions':30} {'number':>6} {'seconds':>8} {'words':>6} {titles}   avg_logprob"
    for name, half in halves.items():
        groups = {
            "speech": [s for s in half.regions if s.is_speech],
            "speech, plausible": [s for s in half.regions if s.is_speech and s.plausible],
            "no speech": [s for s in half.regions if not s.spoken],
            "no speech, plausible": half.plausible_noise(),
        }
        for title, group in groups.items():
            values = np.quantile([s.avg_logprob for s in group] or [np.nan], QUANTILES)
            yield (
                f"{f'{name}: {title}':34} {len(group):>6} "
                f"{sum(s.end - s.start for s in group):>8.1f} {sum(s.words for s in group):>6} "
                + " ".join(f"{value:>7.2f}" for value in values)
            )
    yield ""
    for name, half in halves.items():
        yield (
            f"{name}: the VAD rejects {half.speech_found:.1f} s of speech and "
            f"{half.noise_found:.1f} s of other sound; the filter passes "
            f"{_seconds(half.regions, speech=True):.1f} s and "
            f"{_seconds(half.regions, speech=False):.1f} s"
        )
    yield f"\n{'threshold':24}" + "".join(
        f"{f'{name}: recovered, invented':>40}" for name in halves
    )
    for threshold in sorted({*THRESHOLDS, default, recommended}):
        mark = " (default)" if threshold == default else ""
        mark += " recommended" if threshold == recommended else ""
        cells = "".join(
            f"{100 * half.recovered(threshold):>24.1f} % {half.invented(threshold):>6.2f}/min   "
            for half in halves.values()
        )
        yield f"{f'{threshold:.2f}{mark}':28}{cells}"


def _seconds(regions: Iterable[CheckedRegion], *, speech: bool) -> float:
    """Return the seconds of the regions of speech, or without speech."""
    return sum(s.end - s.start for s in regions if (s.is_speech if speech else not s.spoken))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write the results; return exit code 0, or 2 after an error."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lost_speech.calibration",
        description="Measure second_opinion_threshold for a model.",
    )
    parser.add_argument("--model", default="base")
    parser.add_argument("--minutes", type=minutes, default=10.0, help="of each corpus and half")
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=CORPORA, metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="out.json")
    parsed = parser.parse_args(argv)
    require_directories(parser, parsed.json)
    try:
        calibrate(parsed)
    except (corpora.CorpusError, speech.SpeechError, WhisperBatchError) as error:
        print(f"calibration: {error}", file=sys.stderr)
        return 2
    return 0


def calibrate(parsed: argparse.Namespace) -> None:
    """Measure both halves, print the tables, and write all regions as JSON."""
    halves = {}
    with wb.load(parsed.model, device="cpu", compute_type="int8") as asr:
        languages = speech.LANGUAGES if asr.engine.is_multilingual else ("en",)
        for half in HALVES:
            names_of = partial(
                recording_names, half=half, minutes=parsed.minutes, languages=languages
            )
            names = [name for corpus in dict.fromkeys(parsed.corpora) for name in names_of(corpus)]
            halves[half] = measure_half(asr, names)
    recommended = recommend(halves["development"])
    print(*report(halves, recommended, Options().second_opinion_threshold), sep="\n")
    print(f"\nrecommended: second_opinion_threshold={recommended:.2f}")
    if parsed.json:
        value = {"model": parsed.model, "minutes": parsed.minutes, "recommended": recommended}
        value["halves"] = {name: asdict(half) for name, half in halves.items()}
        text = json.dumps(value, ensure_ascii=False, indent=1)
        parsed.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
