"""The methods of faster-whisper's `BatchedInferencePipeline` that work on encoder windows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from whisperbatch.compat.faster_whisper._reexports import reexported
from whisperbatch.compat.faster_whisper._results import TranscriptionOptions
from whisperbatch.compat.faster_whisper._windows.results import (
    FRAMES_PER_SECOND,
    EncoderOutput,
    GenerationResult,
)
from whisperbatch.compat.faster_whisper._windows.thresholds import avg_logprob_of
from whisperbatch.compat.faster_whisper._windows.timestamps import split_at_timestamps
from whisperbatch.compat.faster_whisper._windows.words import SegmentDict


class BatchMethods:
    """Methods for programs that decode batches of windows in their own order.

    `transcribe` does not call them.

    Attributes:
        model: decodes the windows.
        last_speech_timestamp: end of the last speech in seconds, for the times of words.
    """

    model: Any  # a WhisperModel
    last_speech_timestamp: float

    def forward(
        self,
        features: npt.NDArray[np.float32],
        tokenizer: Any,  # noqa: ANN401 - untyped
        chunks_metadata: Sequence[Mapping[str, Any]],
        options: TranscriptionOptions,
    ) -> list[list[SegmentDict]]:
        """Decode windows, and return the segments of each.

        Args:
            features: shape (batch, n_mels, n_frames).
            tokenizer: faster-whisper's.
            chunks_metadata: of each window, "offset" in the recording and "duration" in seconds.
            options: as in `generate_segment_batched`.

        Returns:
            For each window, dicts with the keys text, avg_logprob, no_speech_prob, tokens, start,
            end, compression_ratio and seek, and with `word_timestamps` also words.
        """
        encoded, outputs = self.generate_segment_batched(features, tokenizer, options)
        segments = [
            _segments(output, metadata, tokenizer)
            for output, metadata in zip(outputs, chunks_metadata, strict=True)
        ]
        if options.word_timestamps:
            frames = [round(m["duration"] * FRAMES_PER_SECOND) for m in chunks_metadata]
            self.last_speech_timestamp = self.model.add_word_timestamps(
                segments,
                tokenizer,
                encoded,
                frames,
                options.prepend_punctuations,
                options.append_punctuations,
                self.last_speech_timestamp,
            )
        return segments

    def generate_segment_batched(
        self,
        features: npt.NDArray[np.float32],
        tokenizer: Any,  # noqa: ANN401 - untyped
        options: TranscriptionOptions,
    ) -> tuple[EncoderOutput, list[dict[str, Any]]]:
        """Decode windows with the first temperature.

        Args:
            features: shape (batch, n_mels, n_frames).
            tokenizer: faster-whisper's.
            options: those of the search and of the prompt have an effect.

        Returns:
            The encoder output, and for each window a dict with the keys avg_logprob,
            no_speech_prob and tokens.
        """
        encoded = self.model.encode(features)
        prompts = self._prompts(encoded, tokenizer, options)
        results = self.model.generate_batch(encoded, prompts, options.temperatures[0], options)
        return encoded, [_output(result, options) for result in results]

    def _prompts(
        self,
        encoded: EncoderOutput,
        tokenizer: Any,  # noqa: ANN401 - untyped
        options: TranscriptionOptions,
    ) -> list[list[int]]:
        """Return the prompt of each window, with its own language if the model detects it."""
        initial = options.initial_prompt or ()
        prompt = self.model.get_prompt(
            tokenizer,
            tokenizer.encode(initial) if isinstance(initial, str) else list(initial),
            without_timestamps=options.without_timestamps,
            prefix=options.prefix,
            hotwords=options.hotwords,
        )
        prompts = [list(prompt) for _ in range(encoded.encoded.rows)]
        if options.multilingual:
            position = prompt.index(tokenizer.sot) + 1
            for row, languages in zip(
                prompts, self.model.model.detect_language(encoded), strict=True
            ):
                row[position] = tokenizer.tokenizer.token_to_id(languages[0][0])
        return prompts


def _output(result: GenerationResult, options: TranscriptionOptions) -> dict[str, Any]:
    return {
        "avg_logprob": avg_logprob_of(result, options.length_penalty),
        "no_speech_prob": result.no_speech_prob,
        "tokens": result.sequences_ids[0],
    }


def _segments(
    output: Mapping[str, Any],
    metadata: Mapping[str, Any],
    tokenizer: Any,  # noqa: ANN401 - untyped
) -> list[SegmentDict]:
    """Return the segments of a window, in seconds of the recording."""
    compression_ratio = reexported(
        "transcribe", ("get_compression_ratio",), "get_compression_ratio"
    )
    offset, duration = metadata["offset"], metadata["duration"]
    stretches, _ = split_at_timestamps(output["tokens"], tokenizer.timestamp_begin, duration)
    texts = [tokenizer.decode(stretch.tokens) for stretch in stretches]
    return [
        {
            **output,
            "text": text,
            "tokens": stretch.tokens,
            "start": offset + stretch.start,
            "end": offset + stretch.end,
            "compression_ratio": compression_ratio(text),
            "seek": int(offset * FRAMES_PER_SECOND),
        }
        for text, stretch in zip(texts, stretches, strict=True)
    ]
