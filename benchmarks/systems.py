"""whisperbatch and faster-whisper's two modes, each as a function of a file and its language.

    whisperbatch-5              beam 5, with the options of the command line
    whisperbatch-torch-5        beam 5 on PyTorch; -torch-int8-5, -torch-hqq4-5: quantized decoder
    faster-whisper-5            sequential windows
    faster-whisper-batched-5    batches of 8 chunks

All systems run the same weights on the CPU, in int8 (except PyTorch), with their library's defaults
for other options.

Word times come from the system (`word_timestamps=True`), except in faster-whisper's sequential
mode. In the other systems this option does not change the text; the sequential mode moves its
window by the word times, so its text can change. That mode runs without the option, and the time of
each segment is divided among its words by their length (`scoring.spread`).
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
from benchmarks.faster_whisper_files import let_faster_whisper_open_files
from benchmarks.scoring import TimedWord, spread
from whisperbatch.engines.settings import LoadKeywords
from whisperbatch.models.registry import find_model
from whisperbatch.options import Options
from whisperbatch.options.keywords import resolve

NAME = re.compile(
    r"(whisperbatch(?:-torch(?:-int8|-hqq4)?)?|faster-whisper|faster-whisper-batched)-([1-9][0-9]?)"
)
OURS, SEQUENTIAL = "whisperbatch", "faster-whisper"
FIXED_OPTIONS = ("beam_size", "language", "word_timestamps")  # set by system, recording, or here


@dataclass(frozen=True, slots=True)
class SystemTranscript:
    """The transcript of a recording by one system.

    Attributes:
        text: the whole text.
        starts: the starts of its segments, in seconds.
        words: its words with their times.
        counts: further numbers that the system reports: dropped texts, chunks, and so on.
    """

    text: str
    starts: tuple[float, ...] = ()
    words: tuple[TimedWord, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


System: TypeAlias = Callable[[Path, str], SystemTranscript]  # (file, code of its language)


def check_options(values: Mapping[str, Any]) -> Options:
    """Return options for whisperbatch; raise OptionError for a wrong or fixed option."""
    for name in FIXED_OPTIONS:
        if name in values:
            raise wb.OptionError(f"{name} is not for --option: the recording or the system sets it")
    return resolve(Options(word_timestamps=True), **values)


@contextmanager
def open_systems(names: Iterable[str], model: str, options: Options) -> Iterator[dict[str, System]]:
    """Load and warm up the systems with these names; each library loads its weights once."""
    kinds = {name: name.rpartition("-") for name in names}
    systems: dict[str, System] = {}
    with ExitStack() as stack:
        faster_whisper = None
        loaded: dict[str, wb.Transcriber] = {}
        for name, (kind, _, beam) in kinds.items():
            if kind.startswith(OURS):
                if kind not in loaded:
                    loaded[kind] = stack.enter_context(wb.load(model, **_load_keywords(kind)))
                systems[name] = _whisperbatch(loaded[kind], options, int(beam))
            else:
                faster_whisper = faster_whisper or _load_faster_whisper(model)
                systems[name] = _faster_whisper(faster_whisper, kind, int(beam))
        with tempfile.TemporaryDirectory() as directory:  # the VAD is loaded at first use
            silence = recordings.Recording("silence", np.zeros(16_000, np.int16), ())
            path = recordings.write(silence, Path(directory, "silence.wav"))
            for system in systems.values():
                system(path, "en")
        yield systems


def _load_keywords(kind: str) -> LoadKeywords:
    """Return the keywords of `wb.load` for a kind of whisperbatch."""
    if kind == OURS:
        return {"device": "cpu"}
    keywords: LoadKeywords = {"device": "cpu", "engine": "torch"}
    if kind.endswith("-int8"):
        keywords["quantization"] = "int8"
    elif kind.endswith("-hqq4"):
        keywords["quantization"] = "hqq4"
    return keywords


def _whisperbatch(asr: wb.Transcriber, options: Options, beam: int) -> System:
    def run(path: Path, language: str) -> SystemTranscript:
        transcript = asr.transcribe(path, options=options, language=language, beam_size=beam)
        segments = transcript.segments
        counts = {"dropped": len(getattr(transcript, "dropped", ()))}
        for name in ("chunks", "redecoded"):
            counts[name] = getattr(transcript, name, 0)
        return SystemTranscript(
            transcript.text,
            tuple(segment.start for segment in segments),
            tuple(TimedWord(w.start, w.end, w.word) for s in segments for w in s.words or ()),
            counts,
        )

    return run


def _load_faster_whisper(model: str) -> Any:  # noqa: ANN401 - faster-whisper ships no types
    from faster_whisper import WhisperModel  # noqa: PLC0415 - only if it is compared

    let_faster_whisper_open_files()
    return WhisperModel(str(find_model(model)), device="cpu", compute_type="int8")


def _faster_whisper(asr: Any, kind: str, beam: int) -> System:  # noqa: ANN401 - no types
    from faster_whisper import BatchedInferencePipeline  # noqa: PLC0415 - see above

    def transcript(segments: list[Any], words: list[TimedWord]) -> SystemTranscript:
        text = " ".join(segment.text for segment in segments)
        return SystemTranscript(text, tuple(segment.start for segment in segments), tuple(words))

    def sequential(path: Path, language: str) -> SystemTranscript:
        segments = list(asr.transcribe(str(path), language=language, beam_size=beam)[0])
        words = [word for s in segments for word in spread(s.start, s.end, s.text, language)]
        return transcript(segments, words)

    def batched(path: Path, language: str) -> SystemTranscript:
        generator, _ = BatchedInferencePipeline(asr).transcribe(
            str(path), language=language, beam_size=beam, batch_size=8, word_timestamps=True
        )
        segments = list(generator)
        words = [TimedWord(w.start, w.end, w.word) for s in segments for w in s.words or ()]
        return transcript(segments, words)

    return sequential if kind == SEQUENTIAL else batched
