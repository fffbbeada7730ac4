"""The methods of faster-whisper's `WhisperModel` that work on encoder windows."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.caching import cached_property
from whisperbatch.compat.faster_whisper._anomalies import without_anomalies
from whisperbatch.compat.faster_whisper._reexports import reexported
from whisperbatch.compat.faster_whisper._results import Segment, TranscriptionOptions
from whisperbatch.compat.faster_whisper._session import with_progress
from whisperbatch.compat.faster_whisper._windows.model import CTranslate2Model
from whisperbatch.compat.faster_whisper._windows.results import (
    FRAMES_PER_SECOND,
    EncoderOutput,
    GenerationResult,
)
from whisperbatch.compat.faster_whisper._windows.sequential import SequentialDecoder
from whisperbatch.compat.faster_whisper._windows.thresholds import (
    FallbackResult,
    avg_logprob_of,
    is_improbable,
    is_repetitive,
    is_silent,
)
from whisperbatch.compat.faster_whisper._windows.timestamps import TIMESTAMP_STEP
from whisperbatch.compat.faster_whisper._windows.words import SegmentDict, place_words, to_words
from whisperbatch.errors import OptionError
from whisperbatch.options import MAX_NEW_TOKENS

MAX_CONTEXT: Final = MAX_NEW_TOKENS - 1  # tokens of hotwords, of previous text and of a prefix


def _original(name: str) -> Any:  # noqa: ANN401 - untyped
    """Return a data helper of faster-whisper's module `transcribe`."""
    return reexported("transcribe", (name,), name)


class WindowMethods:
    """faster-whisper's methods for programs that decode windows in their own order.

    `transcribe` does not call them.

    Attributes:
        model: see `CTranslate2Model`.
        hf_tokenizer: the tokenizer of the model's vocabulary.
    """

    input_stride = 2
    num_samples_per_token = 320
    frames_per_second = FRAMES_PER_SECOND
    tokens_per_second = 50
    time_precision = TIMESTAMP_STEP
    max_length = 2 * MAX_NEW_TOKENS

    model: CTranslate2Model
    hf_tokenizer: Any

    @property
    def feat_kwargs(self) -> dict[str, int]:
        """The arguments of the feature extractor that depend on the model."""
        return {"feature_size": self.model.n_mels}

    @cached_property
    def feature_extractor(self) -> Any:  # noqa: ANN401 - untyped
        """faster-whisper's feature extractor, with the model's number of mel bands."""
        extractor = reexported("feature_extractor", ("FeatureExtractor",), "FeatureExtractor")
        return extractor(**self.feat_kwargs)

    def encode(self, features: npt.NDArray[np.float32]) -> EncoderOutput:
        """Return the encoder output of one window, or of a batch of windows.

        Args:
            features: shape (n_mels, n_frames) or (batch, n_mels, n_frames), with an even number of
                at most 3000 frames.

        Raises:
            OptionError: the shape does not fit the model.
        """
        return self.model.encode(features[None] if np.ndim(features) == 2 else features)  # noqa: PLR2004

    def get_prompt(
        self,
        tokenizer: Any,  # noqa: ANN401 - untyped
        previous_tokens: list[int],
        without_timestamps: bool = False,
        prefix: str | None = None,
        hotwords: str | None = None,
    ) -> list[int]:
        """Return the tokens that the decoder reads before the text of a window.

        Args:
            tokenizer: faster-whisper's.
            previous_tokens: text before the window; the last 223 tokens are used.
            without_timestamps: decode text without timestamp tokens.
            prefix: beginning of the text; at most 223 tokens are used.
            hotwords: words that may occur; they have no effect together with a prefix.
        """
        words: list[int] = []
        if hotwords and not prefix:
            words = tokenizer.encode(f" {hotwords.strip()}")[:MAX_CONTEXT]
        context = [*words, *previous_tokens[-MAX_CONTEXT:]]
        prompt = [*([tokenizer.sot_prev] if context else []), *context, *tokenizer.sot_sequence]
        if without_timestamps:
            prompt.append(tokenizer.no_timestamps)
        if prefix:
            if not without_timestamps:
                prompt.append(tokenizer.timestamp_begin)
            prompt += tokenizer.encode(f" {prefix.strip()}")[:MAX_CONTEXT]
        return prompt

    def generate_with_fallback(
        self,
        encoder_output: EncoderOutput,
        prompt: list[int],
        tokenizer: Any,  # noqa: ANN401 - untyped
        options: TranscriptionOptions,
    ) -> FallbackResult:
        """Decode one window at each temperature in turn, until its text passes the thresholds.

        If no text passes, the most probable is returned that is not repetitive, or the most
        probable of all.

        Raises:
            OptionError: an option cannot be honoured.
        """
        ratio_of = _original("get_compression_ratio")
        results: list[FallbackResult] = []
        for temperature in options.temperatures:
            [result] = self.generate_batch(encoder_output, [prompt], temperature, options)
            avg_logprob = avg_logprob_of(result, options.length_penalty)
            ratio = ratio_of(tokenizer.decode(result.sequences_ids[0]).strip())
            results.append((result, avg_logprob, temperature, ratio))
            improbable = is_improbable(avg_logprob, options)
            if improbable and is_silent(result, options):
                return results[-1]
            if not improbable and not is_repetitive(ratio, options):
                return results[-1]
        if not results:
            raise OptionError("temperatures must have at least one value")
        good = [result for result in results if not is_repetitive(result[3], options)]
        best = max(good or results, key=lambda result: result[1])
        return best[0], best[1], results[-1][2], best[3]

    def generate_batch(
        self,
        encoder_output: EncoderOutput,
        prompts: Sequence[Sequence[int]],
        temperature: float,
        options: TranscriptionOptions,
    ) -> list[GenerationResult]:
        """Decode windows at one temperature; 0 is beam search. All prompts have equal length."""
        search: dict[str, Any] = {"beam_size": options.beam_size, "patience": options.patience}
        if temperature > 0:
            search = {
                "beam_size": 1,
                "num_hypotheses": options.best_of,
                "sampling_topk": 0,
                "sampling_temperature": temperature,
            }
        return self.model.generate(
            encoder_output,
            prompts,
            length_penalty=options.length_penalty,
            repetition_penalty=options.repetition_penalty,
            no_repeat_ngram_size=options.no_repeat_ngram_size,
            max_length=self._max_length(prompts[0], options),
            return_scores=True,
            return_no_speech_prob=True,
            suppress_blank=options.suppress_blank,
            suppress_tokens=options.suppress_tokens,
            max_initial_timestamp_index=round(options.max_initial_timestamp / TIMESTAMP_STEP),
            **search,
        )

    def _max_length(self, prompt: Sequence[int], options: TranscriptionOptions) -> int:
        """Return `max_length` of `CTranslate2Model.generate` for these options.

        Raises:
            OptionError: the prompt and `max_new_tokens` together are longer than the model allows.
        """
        if options.max_new_tokens is None:
            return self.max_length
        if len(prompt) + options.max_new_tokens > self.max_length:
            raise OptionError(
                f"max_new_tokens={options.max_new_tokens} and a prompt of {len(prompt)} tokens are "
                f"longer than {self.max_length} tokens together"
            )
        return max(2 * options.max_new_tokens, options.max_new_tokens + len(prompt) - 1)

    def find_alignment(
        self,
        tokenizer: Any,  # noqa: ANN401 - untyped
        text_tokens: Sequence[Sequence[int]],
        encoder_output: EncoderOutput,
        num_frames: int | Sequence[int],
        median_filter_width: int = 7,
    ) -> list[list[SegmentDict]]:
        """Return the words of each window, with the keys word, tokens, start, end and probability.

        Args:
            tokenizer: faster-whisper's.
            text_tokens: text tokens of each window.
            encoder_output: of the windows.
            num_frames: feature frames of each window, or the same for all.
            median_filter_width: must be 7.
        """
        if not len(text_tokens):
            return []
        results = self.model.align(
            encoder_output,
            tokenizer.sot_sequence,
            text_tokens,
            num_frames,
            median_filter_width=median_filter_width,
        )
        return [
            to_words(result, tokens, tokenizer)
            for result, tokens in zip(results, text_tokens, strict=True)
        ]

    def add_word_timestamps(
        self,
        segments: list[list[SegmentDict]],
        tokenizer: Any,  # noqa: ANN401 - untyped
        encoder_output: EncoderOutput,
        num_frames: int | Sequence[int],
        prepend_punctuations: str,
        append_punctuations: str,
        last_speech_timestamp: float,
    ) -> float:
        """Add words to segments, which then begin and end with their words.

        Args:
            segments: of each window, with the keys seek, start, end and tokens.
            tokenizer: faster-whisper's.
            encoder_output: of the windows.
            num_frames: feature frames of each window, or the same for all.
            prepend_punctuations: marks that belong to the next word.
            append_punctuations: marks that belong to the previous word.
            last_speech_timestamp: end of the speech before the first window, in seconds.

        Returns:
            The end of the last speech in seconds.
        """
        texts = [
            [token for token in chain(*(part["tokens"] for part in parts)) if token < tokenizer.eot]
            for parts in segments
        ]
        alignments = self.find_alignment(tokenizer, texts, encoder_output, num_frames)
        for parts, words in zip(segments, alignments, strict=True):
            _original("merge_punctuations")(words, prepend_punctuations, append_punctuations)
            offset = parts[0]["seek"] / FRAMES_PER_SECOND if parts else 0.0
            last_speech_timestamp = place_words(
                parts, words, tokenizer.eot, offset, last_speech_timestamp
            )
        return last_speech_timestamp

    def generate_segments(
        self,
        features: npt.NDArray[np.float32],
        tokenizer: Any,  # noqa: ANN401 - untyped
        options: TranscriptionOptions,
        log_progress: bool,
        encoder_output: EncoderOutput | None = None,
    ) -> Iterator[Segment]:
        """Decode windows one after the other, each from the last timestamp of the window before.

        This is Whisper's sequential method. `transcribe` uses whisperbatch's pipeline instead.

        Args:
            features: of the recording, shape (n_mels, n_frames).
            tokenizer: faster-whisper's.
            options: every option has its effect.
            log_progress: show a progress bar.
            encoder_output: of the first window, if it is known.
        """
        duration = (features.shape[-1] - 1) / FRAMES_PER_SECOND
        segments = SequentialDecoder(self, features, tokenizer, options).segments(encoder_output)
        if options.hallucination_silence_threshold is not None and options.word_timestamps:
            segments = without_anomalies(segments, options.hallucination_silence_threshold)
        yield from with_progress(segments, duration) if log_progress else segments
