"""Whisper's sequential method: each window starts where the text of the window before ended."""

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from whisperbatch.compat.faster_whisper._options.clips import parse_clips
from whisperbatch.compat.faster_whisper._results import Segment, TranscriptionOptions, Word
from whisperbatch.compat.faster_whisper._windows.results import FRAMES_PER_SECOND, EncoderOutput
from whisperbatch.compat.faster_whisper._windows.thresholds import (
    FallbackResult,
    is_probable,
    is_silent,
)
from whisperbatch.compat.faster_whisper._windows.timestamps import split_at_timestamps
from whisperbatch.compat.faster_whisper._windows.words import SegmentDict
from whisperbatch.features import silence_value
from whisperbatch.types import WINDOW_FRAMES

if TYPE_CHECKING:
    from whisperbatch.compat.faster_whisper._windows.methods import WindowMethods


class SequentialDecoder:
    """Whisper's sequential method on the features of one recording; see `generate_segments`."""

    def __init__(
        self,
        model: "WindowMethods",
        features: npt.NDArray[np.float32],
        tokenizer: Any,  # noqa: ANN401 - untyped
        options: TranscriptionOptions,
    ) -> None:
        self._model, self._features, self._options = model, features, options
        self._tokenizer = copy(tokenizer)  # its language changes with multilingual=True
        self._context = self._initial_prompt()
        self._last_speech = 0.0
        self._number = 0

    def _initial_prompt(self) -> list[int]:
        prompt = self._options.initial_prompt or ()
        if isinstance(prompt, str):
            return list(self._tokenizer.encode(f" {prompt.strip()}"))
        return list(prompt)

    def segments(self, encoder_output: EncoderOutput | None) -> Iterator[Segment]:
        """Yield the segments of all clips."""
        content = self._features.shape[-1] - 1  # the last frame is padding
        for start, end in parse_clips(self._options.clip_timestamps) or ((0.0, None),):
            seek = round(start * FRAMES_PER_SECOND)
            limit = content if end is None else min(round(end * FRAMES_PER_SECOND), content)
            while seek < limit:
                frames = min(WINDOW_FRAMES, limit - seek)
                encoded = encoder_output if seek == 0 else None
                parts, advance = self._window(seek, frames, encoded)
                yield from parts
                seek += advance

    def _window(
        self, seek: int, frames: int, encoded: EncoderOutput | None
    ) -> tuple[list[Segment], int]:
        """Return the segments of the window at frame `seek`, and the frames to the next window."""
        options, model = self._options, self._model
        encoded = encoded or model.encode(self._padded(seek, frames))
        if options.multilingual:
            self._set_language(encoded)
        prompt = model.get_prompt(
            self._tokenizer,
            self._context,
            without_timestamps=options.without_timestamps,
            prefix=options.prefix if seek == 0 else None,
            hotwords=options.hotwords,
        )
        decoded = model.generate_with_fallback(encoded, prompt, self._tokenizer, options)
        result, avg_logprob, temperature, _ = decoded
        if is_silent(result, options) and not is_probable(avg_logprob, options):
            return [], frames
        stretches, next_start = split_at_timestamps(
            result.sequences_ids[0], self._tokenizer.timestamp_begin, frames / FRAMES_PER_SECOND
        )
        offset = seek / FRAMES_PER_SECOND
        parts: list[SegmentDict] = [
            {"seek": seek, "start": offset + s.start, "end": offset + s.end, "tokens": s.tokens}
            for s in stretches
        ]
        advance = min(round(next_start * FRAMES_PER_SECOND), frames)
        if options.word_timestamps:
            self._last_speech = model.add_word_timestamps(
                [parts],
                self._tokenizer,
                encoded,
                frames,
                options.prepend_punctuations,
                options.append_punctuations,
                self._last_speech,
            )
        segments = [segment for part in parts if (segment := self._segment(part, decoded))]
        if (
            not options.condition_on_previous_text
            or temperature > options.prompt_reset_on_temperature
        ):
            self._context = []
        return segments, advance

    def _padded(self, seek: int, frames: int) -> npt.NDArray[np.float32]:
        """Return the features of a window, with silence after its end."""
        padding = ((0, 0), (0, WINDOW_FRAMES - frames))
        silence = silence_value(self._features)
        return np.pad(self._features[:, seek : seek + frames], padding, constant_values=silence)

    def _set_language(self, encoded: EncoderOutput) -> None:
        [[(token, _), *_]] = self._model.model.detect_language(encoded)
        self._tokenizer.language = self._tokenizer.tokenizer.token_to_id(token)
        self._tokenizer.language_code = token[2:-2]

    def _segment(self, part: SegmentDict, decoded: FallbackResult) -> Segment | None:
        """Return a segment, and add its text to the context; None without text or duration."""
        result, avg_logprob, temperature, ratio = decoded
        text = self._tokenizer.decode(part["tokens"])
        if part["start"] == part["end"] or not text.strip():
            return None
        self._context += part["tokens"]
        self._number += 1
        words = [Word(**word) for word in part["words"]] if self._options.word_timestamps else None
        return Segment(
            id=self._number,
            seek=part["seek"],
            start=part["start"],
            end=part["end"],
            text=text,
            tokens=part["tokens"],
            avg_logprob=avg_logprob,
            compression_ratio=ratio,
            no_speech_prob=result.no_speech_prob,
            words=words,
            temperature=temperature,
        )
