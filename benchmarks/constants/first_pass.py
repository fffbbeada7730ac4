"""First decodings of recordings, kept on disk: the rows on which constants are checked.

Each recording is read, chunked, scored for its language and decoded once, greedily, without
retries, filters or a second opinion. The words are placed again whenever rows are loaded, so that
constants of the placement can be changed without decoding.
"""

import hashlib
import os
import pickle
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

import whisperbatch as wb
from benchmarks import corpora
from benchmarks.clips import audioeval_clips
from benchmarks.constants.inventory import OPTIONS
from benchmarks.lost_speech.results import digest
from benchmarks.recordings import Recording, Utterance, assemble
from whisperbatch.decoding.audit import DecodedRow
from whisperbatch.decoding.engine_options import options_for
from whisperbatch.decoding.prompts import WhisperTokenizer
from whisperbatch.decoding.row_decoder import RowDecoder, RowRequest
from whisperbatch.decoding.words import move_into_speech
from whisperbatch.features import feature_extractor
from whisperbatch.language.detection import score_rows
from whisperbatch.protocols import Hypothesis
from whisperbatch.recording import RecordingState, Row
from whisperbatch.scheduling import RunShare, Scheduler, SharedModel
from whisperbatch.sections import chunk_recording
from whisperbatch.segmentation.timed_text import AlignedWord, join_words
from whisperbatch.types import Chunk, LanguageScores, SpeechSpan

CACHE: Final = Path(__file__).parents[2] / ".cache" / "constants"
# The folders of whisperbatch whose code changes the rows. decoding/ only reads the engine's result.
FOLDERS: Final = ("audio", "chunking", "engines", "features", "models", "vad")
CLIPS: Final = "clips"  # kind of a recording: three sentences by other speakers, in nine languages
PAUSE: Final = 1.0  # seconds before each clip
VAD_OFF: Final = "vad_off"  # prefix of a recording that is read without voice activity detection


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A decoded row without samples and features.

    Attributes:
        index: number of the chunk in its recording.
        pieces: of the chunk.
        speech: of the chunk.
        length: samples of the chunk.
        hypothesis: result of the engine.
        text: text of the hypothesis.
        words: the words, with the times of the alignment in chunk samples.
        scores: the most probable languages; None for an English-only model.
    """

    index: int
    pieces: tuple[SpeechSpan, ...]
    speech: tuple[SpeechSpan, ...]
    length: int
    hypothesis: Hypothesis
    text: str
    words: tuple[AlignedWord, ...]
    scores: LanguageScores | None

    def decoded(self, language: str, options: wb.Options = OPTIONS) -> DecodedRow:
        """Return the row as `audit` and the filters expect it, with its words placed again."""
        silence = np.broadcast_to(np.float32(0), self.length)
        chunk = Chunk(0, self.index, self.pieces, self.speech, silence)
        row = Row(chunk, np.zeros((1, 1), np.float32), 0.0, RecordingState(0), self.scores)
        words = move_into_speech([_unplaced(word, chunk) for word in self.words], self.speech)
        texts = (join_words(words),) if words else ()
        return DecodedRow(row, language, self.hypothesis, self.text, texts, options)


@dataclass(frozen=True, slots=True, eq=False)
class FirstPass:
    """The rows of a recording, with its truth.

    Attributes:
        name: KIND:LANGUAGE:SECONDS:SEED, perhaps with the prefix `vad_off:`.
        language: language of the recording, in which all rows are decoded.
        duration: in seconds.
        utterances: the truth.
        rows: in order.
    """

    name: str
    language: str
    duration: float
    utterances: tuple[Utterance, ...]
    rows: tuple[StoredRow, ...]


def _unplaced(word: AlignedWord, chunk: Chunk) -> AlignedWord:
    """Return a word at the place that the alignment gives it."""
    if word.aligned is None:
        return word
    start, end = map(chunk.recording_time, word.aligned)
    return replace(word, start=start, end=max(start, end), span=0)


def first_passes(model: str, names: Sequence[str], directory: Path = CACHE) -> Iterator[FirstPass]:
    """Yield the rows of each recording; recordings that are not in `directory` are decoded."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = {name: path_of(model, name, directory) for name in names}
    if all(path.is_file() for path in paths.values()):
        yield from map(_load, paths.values())
        return
    with wb.load(model, device="cpu", compute_type="int8") as asr:
        for name, path in paths.items():
            if not path.is_file():
                _save(decode(asr, name), path)
            yield _load(path)


def path_of(model: str, name: str, directory: Path) -> Path:
    """Return the file of a recording's rows; it depends on the code that computes the rows."""
    key = "\n".join((model, name, _code_digest(), repr(OPTIONS)))
    stem = name.replace(":", "-")
    return directory / f"{stem}.{model}.{hashlib.sha256(key.encode()).hexdigest()[:16]}.pickle"


@cache
def _code_digest() -> str:
    library = Path(wb.__file__).parent
    return digest(path for folder in FOLDERS for path in (library / folder).rglob("*.py"))


def build(name: str) -> Recording:
    """Build a recording of `benchmarks.corpora`, or of the clips of a language."""
    kind, language, _, _ = name.split(":")
    if kind != CLIPS:
        return corpora.build(name)
    paused = [
        (PAUSE, clip) for clip in audioeval_clips() if clip.utterances[0].language == language
    ]
    return assemble(name, paused, seed=0)


def language_of(name: str) -> str:
    """Return the language of a recording."""
    return name.removeprefix(f"{VAD_OFF}:").split(":")[1]


def decode(asr: wb.Transcriber, name: str) -> FirstPass:
    """Decode a recording once."""
    recording = build(name.removeprefix(f"{VAD_OFF}:"))
    language = language_of(name)
    options = replace(OPTIONS, vad=False) if name.startswith(VAD_OFF) else OPTIONS
    samples = (recording.samples / 32768).astype(np.float32)
    extractor = feature_extractor(options.features, asr.engine.n_mels)
    state = RecordingState(0)
    chunks = chunk_recording([samples], options)
    rows = [Row.of(chunk, extractor, state) for chunk in chunks]
    options = options_for(asr.engine, options)
    vocabulary = WhisperTokenizer(asr.engine.tokenizer, multilingual=asr.engine.is_multilingual)
    scheduler, run = Scheduler(asr.engine), RunShare()
    with scheduler.running(run):
        model = SharedModel(scheduler, run, options)
        if asr.engine.is_multilingual:
            rows = score_rows(model, rows)
        decoded = RowDecoder(model, options, vocabulary)(
            [RowRequest(row, language) for row in rows]
        )
    return FirstPass(
        name, language, recording.duration, recording.utterances, tuple(map(_stored, decoded))
    )


def _stored(decoded: DecodedRow) -> StoredRow:
    chunk = decoded.chunk
    return StoredRow(
        chunk.index,
        chunk.pieces,
        chunk.speech,
        chunk.length,
        decoded.hypothesis,
        decoded.text,
        decoded.words,
        decoded.row.language_scores,
    )


def _save(rows: FirstPass, path: Path) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        pickle.dump(rows, file)
    os.replace(file.name, path)  # noqa: PTH105 - the name of the temporary file is a str


def _load(path: Path) -> FirstPass:
    value = pickle.loads(path.read_bytes())  # noqa: S301 - this program's own files
    if not isinstance(value, FirstPass):
        raise TypeError(f"{path}: not a file of this benchmark; delete the file")
    return value
