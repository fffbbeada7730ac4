"""whisperbatch and faster-whisper's two modes, each as a function of a file and its language.

    whisperbatch-5              beam 5; also the options that are given
    whisperbatch-torch-5        likewise, on PyTorch; its decoder so: -torch-int8-5, -torch-hqq4-5
    faster-whisper-5            one window after the other
    faster-whisper-batched-5    batches of 8 chunks

All run the same weights on the CPU, in int8 but for PyTorch, with each library's own defaults for
the rest.
Words have the times that the system itself gives them (`word_timestamps=True`, which changes no
text of whisperbatch's or of the batched mode's), with one exception: it can change the text of
faster-whisper's sequential mode, which moves its window by them. That mode is run without, and its
words share the time of their segment by the length of their text (`scoring.spread`).
"""

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import whisperbatch as wb
from benchmarks import recordings
from benchmarks.scoring import TimedWord, spread
from whisperbatch.api import LoadKeywords
from whisperbatch.models.registry import find_model
from whisperbatch.options import Options
from whisperbatch.options.keywords import resolve

NAME = re.compile(
    r"(whisperbatch(?:-torch(?:-int8|-hqq4)?)?|faster-whisper|faster-whisper-batched)-([1-9][0-9]?)"
)
OURS, SEQUENTIAL = "whisperbatch", "faster-whisper"
SET = ("beam_size", "language", "word_timestamps")  # by the system's name, and for all


@dataclass(frozen=True, slots=True)
class Heard:
    """What a system made of a recording.

    Attributes:
        text: all of it.
        starts: of its segments, in seconds.
        words: with their times.
        counts: what else it reports: how many texts it dropped, chunks, and so on.
    """

    text: str
    starts: tuple[float, ...] = ()
    words: tuple[TimedWord, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


System: TypeAlias = Callable[[Path, str], Heard]  # of a file and the code of its language


def check_options(values: Mapping[str, Any]) -> Options:
    """Options for whisperbatch; raises OptionError for one that is wrong, or set elsewhere."""
    for name in SET:
        if name in values:
            raise wb.OptionError(
                f"{name} is not for --option: each recording and system has its own"
            )
    return resolve(Options(word_timestamps=True), **values)


@contextmanager
def open_systems(names: Iterable[str], model: str, options: Options) -> Iterator[dict[str, System]]:
    """The systems with these names, loaded and warm; each library's weights are loaded once."""
    kinds = {name: name.rpartition("-") for name in names}
    systems: dict[str, System] = {}
    with ExitStack() as stack:
        rival = None
        loaded: dict[str, wb.Transcriber] = {}
        for name, (kind, _, beam) in kinds.items():
            if kind.startswith(OURS):
                if kind not in loaded:
                    loaded[kind] = stack.enter_context(wb.load(model, **_loading(kind)))
                systems[name] = _ours(loaded[kind], options, int(beam))
            else:
                rival = rival or _rival(model)
                systems[name] = _theirs(rival, kind, int(beam))
        with tempfile.TemporaryDirectory() as directory:  # detectors are loaded when first used
            silence = recordings.Recording("silence", np.zeros(16_000, np.int16), ())
            path = recordings.write(silence, Path(directory, "silence.wav"))
            for system in systems.values():
                system(path, "en")
        yield systems


def _loading(kind: str) -> LoadKeywords:
    """Keywords of `load` for whisperbatch by this name."""
    if kind == OURS:
        return {"device": "cpu", "compute_type": "int8"}
    found: LoadKeywords = {"device": "cpu", "engine": "torch"}
    if kind.endswith("-int8"):
        found["quantization"] = "int8"
    elif kind.endswith("-hqq4"):
        found["quantization"] = "hqq4"
    return found


def _ours(asr: wb.Transcriber, options: Options, beam: int) -> System:
    def run(path: Path, language: str) -> Heard:
        found = asr.transcribe(path, options=options, language=language, beam_size=beam)
        segments = found.segments
        counts = {"dropped": len(getattr(found, "dropped", ()))}
        for name in ("chunks", "redecoded"):
            counts[name] = getattr(found, name, 0)
        return Heard(
            found.text,
            tuple(segment.start for segment in segments),
            tuple(TimedWord(w.start, w.end, w.word) for s in segments for w in s.words or ()),
            counts,
        )

    return run


def _rival(model: str) -> Any:  # noqa: ANN401 - it ships no types
    from faster_whisper import WhisperModel  # noqa: PLC0415 - only if it takes part

    return WhisperModel(str(find_model(model)), device="cpu", compute_type="int8")


def _theirs(rival: Any, kind: str, beam: int) -> System:  # noqa: ANN401 - likewise
    from faster_whisper import BatchedInferencePipeline  # noqa: PLC0415 - likewise

    def sequential(path: Path, language: str) -> Heard:
        found = list(rival.transcribe(str(path), language=language, beam_size=beam)[0])
        timed = [word for s in found for word in spread(s.start, s.end, s.text, language)]
        return Heard(" ".join(s.text for s in found), tuple(s.start for s in found), tuple(timed))

    def batched(path: Path, language: str) -> Heard:
        segments, _ = BatchedInferencePipeline(rival).transcribe(
            str(path), language=language, beam_size=beam, batch_size=8, word_timestamps=True
        )
        found = list(segments)
        timed = [TimedWord(w.start, w.end, w.word) for s in found for w in s.words or ()]
        return Heard(" ".join(s.text for s in found), tuple(s.start for s in found), tuple(timed))

    return sequential if kind == SEQUENTIAL else batched
