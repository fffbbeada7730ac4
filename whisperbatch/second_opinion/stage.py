"""The stage between the VAD and the chunks: audio that the VAD rejects gets a second opinion.

    VAD frames      frames and their probabilities; held while a region is checked
    regions         sound without lasting speech                          regions.py
    possible speech parts that are not music, and that a fresh VAD likes  checks.py
    text            the engine decodes the parts as if they were speech   `RegionDecoder`
    samples         even sound without any sign of speech, one in each section regions.py
    accepted        strict rules: only speech gives this text             checks.py
    VAD frames      accepted: the probabilities of the words are raised

Later stages treat accepted audio as ordinary speech. Frames without accepted text are unchanged.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.chunking.split import split_in_two
from whisperbatch.decoding.audit import DecodedRow, covered_until
from whisperbatch.decoding.prompts import WhisperTokenizer
from whisperbatch.decoding.row_decoder import RowDecoder, RowRequest
from whisperbatch.language.detection import restrict_to, score_rows
from whisperbatch.options import Options
from whisperbatch.protocols import FeatureExtractor, Vad
from whisperbatch.recording import RecordingState, Row
from whisperbatch.scheduling import SharedModel
from whisperbatch.second_opinion.checks import find_possible_speech, proves_speech
from whisperbatch.second_opinion.regions import (
    MIN_REGION,
    RegionFinder,
    RejectedRegion,
    SampleFinder,
)
from whisperbatch.types import (
    Chunk,
    Samples,
    SpeechFrames,
    SpeechSpan,
    first_section,
    to_samples,
    to_seconds,
)

log = logging.getLogger(__name__)

MAX_HELD: Final = to_samples(30.0)  # samples from the first waiting region; then all are decoded
SURROUNDINGS: Final = to_samples(3.0)  # samples around accepted text with a lower threshold
# Added to the logits of the surroundings: speech starts at a probability of 0.15 instead of 0.5.
SURROUNDINGS_SHIFT: Final = 1.75
MIN_SOUND: Final = to_samples(0.1)  # samples of a run of sound in which words can lie
WORD_MARGIN: Final = to_samples(0.1)  # samples around a word that count as speech
MAX_WORD_GAP: Final = to_samples(1.0)  # samples between two words that count as speech
SPEECH_PROBABILITY: Final = 0.95  # of frames with accepted words

# Work that gave no text, in samples of the encoder's windows. The limit is that of a section.
FREE_WORK: Final = to_samples(90.0)  # in the first section of a recording
LATER_FREE_WORK: Final = to_samples(1.0)  # in each later section, after the first region
WORK_SHARE: Final = 0.03  # of the samples that were read
ENCODER_PADDING: Final = to_samples(7.5)  # mean silence in the encoder window after a region


class HeldFrames:
    """Blocks that have not been released. Positions are VAD frames of the clip.

    Attributes:
        end: the frame after the last.
    """

    def __init__(self, hop: int) -> None:
        self._hop = hop
        self._blocks: deque[SpeechFrames] = deque()
        self._start = 0
        self.end = 0

    def append(self, block: SpeechFrames) -> None:
        """Add the next block."""
        self._blocks.append(block)
        self.end += len(block.probabilities)

    def release(self, before: int) -> Iterator[SpeechFrames]:
        """Yield and forget the blocks that end at or before frame `before`."""
        while self._blocks and self._start + len(self._blocks[0].probabilities) <= before:
            block = self._blocks.popleft()
            self._start += len(block.probabilities)
            yield block

    def samples(self, start: int, end: int) -> Samples:
        """Return the samples of the frames from `start` to before `end`."""
        parts = [np.zeros(0, np.float32)]
        for position, block in self._positions():
            first, last = ((frame - position) * self._hop for frame in (start, end))
            parts.append(block.samples[max(first, 0) : max(last, 0)])
        return np.concatenate(parts)

    def first_frame(self, start: int) -> int:
        """Return `start`, or the first frame that is still held, if that frame is later."""
        return max(start, self._start)

    def change(
        self,
        start: int,
        end: int,
        values: npt.NDArray[np.float32],
        *,
        shift: float,
        onset: float,
    ) -> int:
        """Raise the probabilities of the frames from `start` to before `end`.

        Args:
            start: first frame, still held.
            end: the frame after the last.
            values: minimum of each probability, shape (end - start,).
            shift: added to the logits of all of these probabilities.
            onset: probability of speech.

        Returns:
            The number of frames whose probability was below `onset`, and no longer is.
        """
        risen = 0
        changed: deque[SpeechFrames] = deque()
        for position, block in self._positions():
            count = len(block.probabilities)
            first, last = max(start, position), min(end, position + count)
            if first < last:
                probabilities = block.probabilities.copy()
                part = probabilities[first - position : last - position]
                raised = np.maximum(_shifted(part, shift), values[first - start : last - start])
                risen += int(np.count_nonzero((part < onset) & (raised >= onset)))
                part[:] = raised
                changed.append(replace(block, probabilities=probabilities))
            else:
                changed.append(block)
        self._blocks = changed
        return risen

    def _positions(self) -> Iterator[tuple[int, SpeechFrames]]:
        """Yield each block with its first frame."""
        position = self._start
        for block in self._blocks:
            yield position, block
            position += len(block.probabilities)


def _shifted(probabilities: npt.NDArray[np.float32], shift: float) -> npt.NDArray[np.float32]:
    """Return the probabilities with `shift` added to their logits."""
    clipped = np.clip(probabilities.astype(np.float64), 1e-6, 1 - 1e-6)
    raised: npt.NDArray[np.float64] = 1 / (1 + (1 / clipped - 1) * np.exp(-shift))
    return raised.astype(np.float32)


class RegionDecoder:
    """Decodes regions. Thread-safe. A result does not depend on the other regions.

    Args:
        model: runs the model.
        extractor: computes the features of the regions.
        options: options of the run.
    """

    def __init__(self, model: SharedModel, extractor: FeatureExtractor, options: Options) -> None:
        self._model = model
        self._extractor = extractor
        # defaults: options that favour or forbid some text must not decide whether there is speech
        self._options = Options(
            beam_size=1, batch_size=options.batch_size, languages=options.languages
        )
        vocabulary = WhisperTokenizer(model.tokenizer, multilingual=model.is_multilingual)
        self._decode = RowDecoder(model, self._options, vocabulary)

    def __call__(self, chunks: Sequence[Chunk], language: str | None) -> list[DecodedRow]:
        """Return the text of each chunk, in order.

        Args:
            chunks: regions of one recording.
            language: language of the recording, if it is final; otherwise each row is decoded in
                its own most probable language.
        """
        state = RecordingState(chunks[0].recording)  # these rows have no part in the votes
        rows: Sequence[Row] = [Row.of(chunk, self._extractor, state) for chunk in chunks]
        if language:
            return self._decode([RowRequest(row, language) for row in rows])
        scored = score_rows(self._model, rows)
        return self._decode([RowRequest(row, self._most_probable(row)) for row in scored])

    def _most_probable(self, row: Row) -> str:
        if row.language_scores is None:
            raise ValueError("every row of a region needs its language scores")
        scores = restrict_to(row.language_scores.probabilities, self._options.languages)
        return max(scores, key=lambda code: scores[code])


def second_opinions(
    model: SharedModel, vad: Vad, extractor: FeatureExtractor, options: Options
) -> Callable[[RecordingState, Callable[[], bool]], "SecondOpinion | None"]:
    """Return a function that returns the stage of a recording; None if the options switch it off.

    The function takes the state of the recording, and a function that is true when the run stops.
    """
    if not (options.vad and options.second_opinion):
        return lambda *_: None
    decoder = RegionDecoder(model, extractor, options)
    return lambda state, stopped: SecondOpinion(vad, decoder, options, state, stopped)


class SecondOpinion:
    """Checks the rejected audio of one recording. Thread-safe.

    Args:
        vad: runs again on the rejected regions.
        decoder: decodes regions.
        options: options of the run.
        state: state of the recording. Its language is used if it is final. The stage adds the
            checked and the recovered samples.
        stopped: True ends all checks.
    """

    def __init__(
        self,
        vad: Vad,
        decoder: RegionDecoder,
        options: Options,
        state: RecordingState,
        stopped: Callable[[], bool],
    ) -> None:
        self._new = partial(SectionOpinion, vad, decoder, options, state, stopped)
        self._first_section = first_section(options.clip_timestamps)
        self._sections: dict[int, SectionOpinion] = {}
        self._lock = threading.Lock()

    def __call__(
        self, blocks: Iterable[SpeechFrames], offset: int = 0, section: int = 0
    ) -> Iterator[SpeechFrames]:
        """Yield the blocks of a section again; see `SectionOpinion`.

        Args:
            blocks: all blocks of the section, or of one of its clips, from the Vad.
            offset: position of the first block in the recording, in samples.
            section: number of the section. Each section has its own limit of work.
        """
        with self._lock:
            opinion = self._sections.get(section)
            if opinion is None:
                free_work = FREE_WORK if section == self._first_section else LATER_FREE_WORK
                opinion = self._sections[section] = self._new(section=section, free_work=free_work)
        return opinion(blocks, offset)


class SectionOpinion:
    """Checks the rejected audio of one section: its clips in order.

    Args:
        vad: runs again on the rejected regions.
        decoder: decodes regions.
        options: options of the run.
        state: see `SecondOpinion`.
        stopped: True ends all checks.
        section: number of the section.
        free_work: samples of encoder windows that may give no text.
    """

    def __init__(
        self,
        vad: Vad,
        decoder: RegionDecoder,
        options: Options,
        state: RecordingState,
        stopped: Callable[[], bool],
        *,
        section: int,
        free_work: int,
    ) -> None:
        self._vad = vad
        self._decoder = decoder
        self._options = options
        self._state = state
        self._stopped = stopped
        self._section = section
        self._free_work = free_work
        self._frames_read = 0  # of the clips of the section
        self._work = 0  # samples of encoder windows of the section that gave no text
        self._wants_sample = True  # whether the section has no sample without text
        self._skipped = 0  # samples of sound in the clip that were not checked

    def __call__(
        self, blocks: Iterable[SpeechFrames], offset: int
    ) -> Generator[SpeechFrames, None, None]:
        """Yield the blocks of the section again; blocks without accepted text are the same objects.

        At most `MAX_HELD` samples and the `SURROUNDINGS` are held.

        Args:
            blocks: all blocks of the section, or of one of its clips, from the Vad.
            offset: position of the first block in the recording, in samples.
        """
        hop = self._vad.hop
        held = HeldFrames(hop)
        finder = RegionFinder(self._options, hop)
        sampler = SampleFinder(self._options.vad_onset, hop)
        surroundings = SURROUNDINGS // hop
        waiting: list[RejectedRegion] = []
        for block in blocks:
            held.append(block)
            self._frames_read += len(block.probabilities)
            waiting += finder.push(block)
            if waiting and held.end - waiting[0].start >= MAX_HELD // hop:
                ready = [region for region in waiting if region.end + surroundings <= held.end]
                self._check(held, ready, offset)
                del waiting[: len(ready)]
            self._check_samples(held, sampler.push(block, in_region=finder.is_open), offset)
            sampler.wanted = self._wants_sample
            first_open = min(
                [finder.settled, sampler.settled, *(region.start for region in waiting)]
            )
            yield from held.release(before=first_open - surroundings)
        waiting += finder.finish()
        self._check(held, waiting, offset)
        self._check_samples(held, sampler.finish(), offset)
        self._log_skipped()
        yield from held.release(before=held.end)

    def _log_skipped(self) -> None:
        if self._skipped:
            log.info(
                "recording %d: %.1f s of sound that the voice activity detector rejects were not "
                "checked, because the checks reached their limit of work",
                self._state.number,
                to_seconds(self._skipped),
            )
            self._skipped = 0

    def _check(self, held: HeldFrames, regions: Sequence[RejectedRegion], offset: int) -> None:
        """Decode the possible speech of regions, and raise the probabilities of accepted text."""
        chunks = [] if self._stopped() else self._affordable(self._chunks(held, regions, offset))
        if not chunks:
            return
        for decoded in self._decode(chunks):
            if self._judge(held, decoded, offset):
                self._work -= _work(decoded.chunk.length)

    def _check_samples(
        self, held: HeldFrames, samples: Iterable[RejectedRegion], offset: int
    ) -> None:
        """Decode samples of even sound, without the filter, until a sample has no accepted text."""
        hop = self._vad.hop
        for region in samples:
            if self._stopped():
                return
            audio = held.samples(region.start, region.end)
            start = offset + region.start * hop
            span = SpeechSpan(start, start + len(audio))
            [decoded] = self._decoder(
                [Chunk(self._state.number, 0, (span,), (span,), audio)], self._final_language()
            )
            self._wants_sample = self._judge(held, decoded, offset)

    def _judge(self, held: HeldFrames, decoded: DecodedRow, offset: int) -> bool:
        """Return whether the text of a chunk proves speech, which is then accepted."""
        chunk = decoded.chunk
        recovered = proves_speech(decoded, self._options.second_opinion_threshold)
        frames = self._accept(held, decoded, offset) if recovered else 0
        self._state.add_check(self._section, chunk.length, frames * self._vad.hop)
        log.info(
            "recording %d, %.2f s to %.2f s: the voice activity detector found no speech; "
            "the model %s (average log-probability %.2f)",
            chunk.recording,
            to_seconds(chunk.start),
            to_seconds(chunk.end),
            "did" if recovered else "found none either",
            decoded.hypothesis.avg_logprob,
        )
        return recovered

    def _final_language(self) -> str | None:
        language = self._state.language
        return language.decision.language if language.decision and language.final else None

    def _decode(self, chunks: Sequence[Chunk]) -> list[DecodedRow]:
        """Return the texts of chunks; if a text has a loop, the texts of the chunk's halves.

        The model can loop on one sentence and skip the speech after the sentence. A loop is
        probable, so that its log-probability says nothing about speech.
        """
        final = self._final_language()
        rows = self._decoder(chunks, final)
        halves = {
            row: split_in_two(row.chunk, (row.chunk.start + row.chunk.end) // 2) or ()
            for row in rows
            if row.repeats
        }
        parts = self._affordable((1.0, half) for pair in halves.values() for half in pair)
        if not parts:
            return rows
        return [row for row in rows if not halves.get(row)] + self._decoder(parts, final)

    def _chunks(
        self, held: HeldFrames, regions: Sequence[RejectedRegion], offset: int
    ) -> Iterator[tuple[float, Chunk]]:
        """Yield the possible speech of all regions as chunks, each with its probability.

        Regions are skipped without the VAD if the limit of work allows no chunk.
        """
        hop = self._vad.hop
        for region in regions:
            if not self._allows(MIN_REGION):
                self._skipped += (region.end - region.start) * hop
                continue
            samples = held.samples(region.start, region.end)
            position = offset + region.start * hop
            for part in find_possible_speech(self._vad, samples, MIN_REGION):
                span = SpeechSpan(position + part.start, position + part.end)
                sounds = [
                    SpeechSpan(offset + first * hop, offset + last * hop).within(
                        span.start, span.end
                    )
                    for first, last in region.sounds
                ]
                speech = tuple(sound for sound in sounds if sound.length >= MIN_SOUND) or (span,)
                part_samples = samples[part.start : part.end]
                yield part.probability, Chunk(self._state.number, 0, (span,), speech, part_samples)

    def _allows(self, length: int) -> bool:
        """Return whether the limit of work allows a chunk with this number of samples.

        A chunk is always allowed while no work of the section was in vain: without this, a later
        section could not check a long region.
        """
        limit = self._free_work + WORK_SHARE * self._frames_read * self._vad.hop
        return not self._work or self._work + _work(length) <= limit

    def _affordable(self, parts: Iterable[tuple[float, Chunk]]) -> list[Chunk]:
        """Return the chunks that the limit of work allows, the most probable first."""
        chunks = []
        for _, chunk in sorted(parts, key=lambda part: -part[0]):
            if self._allows(chunk.length):
                self._work += _work(chunk.length)
                chunks.append(chunk)
            else:
                self._skipped += chunk.length
        return chunks

    def _accept(self, held: HeldFrames, decoded: DecodedRow, offset: int) -> int:
        """Raise the probabilities of accepted words, and lower the threshold around them.

        Returns:
            The number of frames that now reach `vad_onset`, and did not before.
        """
        hop, onset = self._vad.hop, self._options.vad_onset
        start = held.first_frame((decoded.chunk.start - offset - SURROUNDINGS) // hop)
        end = min(-(-(decoded.chunk.end - offset + SURROUNDINGS) // hop), held.end)
        values = np.zeros(end - start, np.float32)
        previous_end: int | None = None
        for word in decoded.words:
            first, last = word.start - WORD_MARGIN, covered_until(word) + WORD_MARGIN
            if previous_end is not None and first - previous_end <= MAX_WORD_GAP:
                first = min(first, previous_end)
            previous_end = last
            frames = slice(max((first - offset) // hop - start, 0), (last - offset) // hop - start)
            values[frames] = max(SPEECH_PROBABILITY, onset)
        return held.change(start, end, values, shift=SURROUNDINGS_SHIFT, onset=onset)


def _work(length: int) -> int:
    """Return the samples of the encoder window of a chunk with this number of samples."""
    return length + ENCODER_PADDING
