"""How many word errors do the sections of long recordings cost?

Each recording is transcribed twice: with a new section about every five minutes, as always, and as
one section. The last two columns are the word errors. The paired bootstrap shows whether the
difference of all recordings could be chance.

python -m benchmarks.section_errors                   # 20 recordings of 15 minutes, base, beam 1
python -m benchmarks.section_errors --recordings mixed:en:3600:0 --beam 5
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Final
from unittest import mock

import whisperbatch as wb
from benchmarks import corpora, scoring
from benchmarks.arguments import add_recordings
from benchmarks.lost_speech.bootstrap import compare
from benchmarks.recordings import Recording
from benchmarks.speech import LANGUAGES
from whisperbatch.sections import division
from whisperbatch.types import SECTION

KINDS: Final = ("dense", "pauses", "noise_under", "telephone")
RECORDINGS: Final = [f"{kind}:{language}:900:21" for kind, language in product(KINDS, LANGUAGES)]


@contextmanager
def one_section(samples: int) -> Iterator[None]:
    """Make recordings of at most `samples` samples one section until the end of a `with` block."""
    with mock.patch.object(division, "SECTION", max(samples, SECTION)):
        yield


def errors(asr: wb.Transcriber, recording: Recording, beam: int) -> scoring.Score:
    """Return the word errors of a recording."""
    language = corpora.parse(recording.name)[1]
    transcript = asr.transcribe(recording.samples, language=language, beam_size=beam)
    return scoring.word_error_rate(recording.text, transcript.text, language)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each recording, and the difference of all."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.section_errors",
        description=(__doc__ or "").partition("\n")[0],
    )
    add_recordings(parser, RECORDINGS)
    parser.add_argument("--model", default="base")
    parser.add_argument("--beam", type=int, default=1)
    options = parser.parse_args(arguments)
    divided: list[scoring.Score] = []
    whole: list[scoring.Score] = []
    print(f"{'recording':24}{'words':>8}{'sections':>10}{'one':>8}")
    with wb.load(options.model, device="cpu") as asr:
        for name in options.recordings:
            recording = corpora.build(name)
            divided.append(errors(asr, recording, options.beam))
            with one_section(len(recording.samples)):
                whole.append(errors(asr, recording, options.beam))
            row = f"{name:24}{whole[-1].words:8}{divided[-1].errors:10}{whole[-1].errors:8}"
            print(row, flush=True)
    words = [score.words for score in whole]
    with_sections, without = ([float(score.errors) for score in each] for each in (divided, whole))
    for label, numbers in ("sections", with_sections), ("one section", without):
        print(f"{label:12} {sum(numbers) / sum(words):.2%} of {sum(words)} words")
    if difference := compare(with_sections, without, words):
        print(f"difference   {difference.points}")


if __name__ == "__main__":
    main()
