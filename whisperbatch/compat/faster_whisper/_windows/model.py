"""`WhisperModel.model`: the attributes and methods of CTranslate2's model, on any engine."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import numpy as np

from whisperbatch import Transcriber
from whisperbatch.caching import cached_property
from whisperbatch.compat.faster_whisper._windows.prompts import (
    Prompt,
    groups_of_equal_form,
    parse_prompt,
)
from whisperbatch.compat.faster_whisper._windows.results import (
    AlignmentResult,
    EncoderOutput,
    GenerationResult,
)
from whisperbatch.compat.faster_whisper._windows.timestamps import TIMESTAMP_STEP
from whisperbatch.errors import OptionError
from whisperbatch.options import MAX_NEW_TOKENS, SearchOptions, checks, plain
from whisperbatch.protocols import AlignRequest, Decoded, DecodeRequest, Encoded, Sampling
from whisperbatch.text import shown
from whisperbatch.types import WINDOW_FRAMES

MEDIAN_FILTER_WIDTH: Final = 7  # encoder positions; OpenAI's width, and that of all engines
SEED: Final = 0  # equal calls give equal samples


class CTranslate2Model:
    """The attributes and methods that programs use of `WhisperModel.model`.

    Attributes:
        is_multilingual: False for English-only models.
        n_mels: number of mel bands of the features.
        num_workers: number of batches decoded at a time.
        num_languages: number of languages that the model can detect.
        device: "cpu" or "cuda".
        device_index: numbers of the devices.
    """

    def __init__(
        self, asr: Transcriber, *, device: str, device_index: object, compute_type: str
    ) -> None:
        self._asr = asr
        self._compute_type = compute_type
        self.is_multilingual = asr.engine.is_multilingual
        self.n_mels = asr.engine.n_mels
        self.num_workers = asr.engine.workers
        self.device = device
        self.device_index = _as_list(device_index)

    @cached_property
    def compute_type(self) -> str:
        """Type of the weights."""
        from whisperbatch.engines.devices import choose_compute_type  # noqa: PLC0415 - heavy

        if self._compute_type not in ("default", "auto"):
            return self._compute_type
        return choose_compute_type("auto", self.device, tuple(self.device_index))

    def unload_model(self, to_cpu: bool = False) -> None:
        """Free the weights. They cannot be loaded again.

        Raises:
            OptionError: `to_cpu` is not False.
        """
        if to_cpu:
            raise OptionError(
                "to_cpu=True cannot be honoured: freed weights cannot be loaded again"
            )
        self._asr.close()

    def encode(self, features: Any, to_cpu: bool = False) -> EncoderOutput:  # noqa: ANN401, ARG002
        """Return the encoder output of windows.

        Args:
            features: shape (batch, n_mels, n_frames), in an array or in CTranslate2's StorageView.
            to_cpu: no effect: the engine decides where the encoder output is stored.

        Raises:
            OptionError: the shape of the features does not fit the model.
        """
        try:
            array = np.ascontiguousarray(np.asarray(features), np.float32)
        except Exception as error:  # a foreign object may raise anything
            raise OptionError(f"features={shown(features)} must be an array of float32") from error
        frames = array.shape[-1] if array.ndim else 0
        if (
            array.shape[1:] != (self.n_mels, frames)
            or not 0 < frames <= WINDOW_FRAMES
            or frames % 2
        ):
            raise OptionError(
                f"features have shape {array.shape}, not (batch, {self.n_mels}, n_frames) with an "
                f"even number of at most {WINDOW_FRAMES} frames"
            )
        return EncoderOutput(self._asr.engine.encode(array), frames)

    def detect_language(self, features: Any) -> list[list[tuple[str, float]]]:  # noqa: ANN401
        """Return the language tokens and their probabilities of each window, in descending order.

        Args:
            features: features or encoder output.
        """
        scores = self._asr.engine.detect_language(self._encoded(features).encoded)
        return [
            [(f"<|{code}|>", row[code]) for code in sorted(row, key=lambda code: -row[code])]
            for row in scores
        ]

    def generate(
        self,
        features: Any,  # noqa: ANN401
        prompts: Iterable[Iterable[int | str]],
        *,
        asynchronous: bool = False,
        beam_size: int = 5,
        patience: float = 1,
        num_hypotheses: int = 1,
        length_penalty: float = 1,
        repetition_penalty: float = 1,
        no_repeat_ngram_size: int = 0,
        max_length: int = 448,
        return_scores: bool = False,
        return_logits_vocab: bool = False,
        return_no_speech_prob: bool = False,
        max_initial_timestamp_index: int = 50,
        suppress_blank: bool = True,
        suppress_tokens: Sequence[int] | None = (-1,),
        sampling_topk: int = 1,
        sampling_temperature: float = 1,
    ) -> list[GenerationResult]:
        """Decode windows with CTranslate2's parameters. Return one result per window.

        Args:
            features: features or encoder output.
            prompts: token ids, or tokens as text, of each window.
            asynchronous: must be False.
            beam_size: number of beams; 1 is greedy search.
            patience: of beam search.
            num_hypotheses: number of samples, of which the most probable is returned.
            length_penalty: exponent of the length by which a score is divided.
            repetition_penalty: above 1, repeated tokens are less probable.
            no_repeat_ngram_size: sequences of this length are not repeated.
            max_length: tokens of prompt and text; the text has at most half of this number.
            return_scores: fill `scores` of the results.
            return_logits_vocab: must be False.
            return_no_speech_prob: fill `no_speech_prob` of the results.
            max_initial_timestamp_index: maximum of the first timestamp, in steps of 0.02 s.
            suppress_blank: forbid a blank as the first token.
            suppress_tokens: token ids that are never decoded; -1 for the model's own list.
            sampling_topk: 1 decodes the most probable tokens; 0 samples from all tokens.
            sampling_temperature: of the sampling.

        Raises:
            OptionError: a parameter cannot be honoured.
        """
        samples = sampling_topk == 0
        _check_honoured(
            asynchronous=(asynchronous, False),
            return_logits_vocab=(return_logits_vocab, False),
            sampling_topk=(sampling_topk, sampling_topk if samples else 1),
            beam_size=(beam_size, 1 if samples else beam_size),
            num_hypotheses=(num_hypotheses, num_hypotheses if samples else 1),
        )
        output = self._encoded(features)
        parsed = [parse_prompt(prompt, self._asr.engine.tokenizer) for prompt in prompts]
        if len(parsed) != output.encoded.rows:
            raise OptionError(f"{len(parsed)} prompts for {output.encoded.rows} windows")
        beam: dict[str, float] = {}
        if beam_size != 1:
            beam = {"patience": patience, "length_penalty": length_penalty}
        settings = {
            "beam_size": beam_size,
            **beam,
            "repetition_penalty": repetition_penalty,
            "no_repeat_ngram_size": no_repeat_ngram_size,
            "suppress_blank": suppress_blank,
            "suppress_tokens": tuple(suppress_tokens or ()),
            "max_initial_timestamp": max_initial_timestamp_index * TIMESTAMP_STEP,
        }
        sampling = Sampling(sampling_temperature, num_hypotheses, SEED) if samples else None
        decoded = self._decode(output, parsed, settings, max_length, sampling)
        return [
            self._result(
                prompt,
                row,
                length_penalty if return_scores else None,
                row.hypothesis.no_speech_prob if return_no_speech_prob else 0.0,
            )
            for prompt, row in zip(parsed, decoded, strict=True)
        ]

    def align(
        self,
        features: Any,  # noqa: ANN401
        start_sequence: Iterable[int],
        text_tokens: Sequence[Sequence[int]],
        num_frames: int | Sequence[int],
        *,
        median_filter_width: int = MEDIAN_FILTER_WIDTH,
    ) -> list[AlignmentResult]:
        """Return the times of the tokens of each window.

        Args:
            features: features or encoder output.
            start_sequence: start of transcript, with language and task.
            text_tokens: text tokens of each window.
            num_frames: feature frames of each window, without padding, or the same for all.
            median_filter_width: must be 7.

        Raises:
            OptionError: a parameter cannot be honoured.
        """
        _check_honoured(median_filter_width=(median_filter_width, MEDIAN_FILTER_WIDTH))
        output, start = self._encoded(features), tuple(start_sequence)
        frames = [num_frames] * len(text_tokens) if isinstance(num_frames, int) else num_frames
        if not len(text_tokens) == len(frames) == output.encoded.rows:
            raise OptionError(f"{len(text_tokens)} texts for {output.encoded.rows} windows")
        requests = [
            AlignRequest(start, tuple(tokens), min(int(length), output.frames))
            for tokens, length in zip(text_tokens, frames, strict=True)
        ]
        return list(map(AlignmentResult.of, self._asr.engine.align(output.encoded, requests)))

    def _encoded(self, features: Any) -> EncoderOutput:  # noqa: ANN401
        return features if isinstance(features, EncoderOutput) else self.encode(features)

    def _decode(
        self,
        output: EncoderOutput,
        prompts: Sequence[Prompt],
        settings: dict[str, Any],
        max_length: int,
        sampling: Sampling | None,
    ) -> list[Decoded]:
        """Decode the windows, with one call of the engine for all prompts of equal form."""
        engine, decoded = self._asr.engine, dict[int, Decoded]()
        groups = groups_of_equal_form(prompts)
        rows = engine.split(output.encoded) if len(groups) > 1 else []
        for group in groups:
            length = len(prompts[group[0]].tokens)
            options = SearchOptions(
                **settings, max_new_tokens=_max_new_tokens(plain(max_length), length)
            )
            engine.check(options)
            encoded: Encoded = engine.join([rows[row] for row in group]) if rows else output.encoded
            requests = [
                DecodeRequest(prompt.tokens, prompt.start, prompt.prefix, output.frames, sampling)
                for prompt in (prompts[row] for row in group)
            ]
            decoded.update(zip(group, engine.decode(encoded, requests, options), strict=True))
        return [decoded[row] for row in range(len(prompts))]

    def _result(
        self, prompt: Prompt, row: Decoded, length_penalty: float | None, no_speech_prob: float
    ) -> GenerationResult:
        ids = [*prompt.prefix, *row.hypothesis.tokens]
        texts = [cast("str", self._asr.engine.tokenizer.id_to_token(token)) for token in ids]
        scores = []
        if length_penalty is not None:  # CTranslate2 divides the total by the length
            total = row.hypothesis.avg_logprob * (len(row.hypothesis.tokens) + 1)
            scores.append(total / max(len(ids), 1) ** length_penalty)
        return GenerationResult([texts], [ids], scores, no_speech_prob)


def _as_list(device_index: object) -> list[int]:
    """Return the numbers of one or several devices, which the engine has checked."""
    several = type(device_index) in {list, tuple}
    return list(cast("Sequence[int]", device_index)) if several else [cast("int", device_index)]


def _check_honoured(**values: tuple[object, object]) -> None:
    """Raise OptionError for a value that differs from the only value with an effect."""
    for name, (value, honoured) in values.items():
        if value != honoured:
            raise OptionError(f"{name}={shown(value)} cannot be honoured; give {honoured}")


def _max_new_tokens(max_length: object, prompt_length: int) -> int:
    """Return the number of tokens that CTranslate2 decodes with this `max_length`.

    It counts the prompt without its last token.
    """
    checks.integer("max_length", max_length, minimum=2, maximum=checks.MAX_TOKEN)
    length = cast("int", max_length)
    tokens = min(length // 2, length - prompt_length + 1, MAX_NEW_TOKENS)
    if tokens < 1:
        raise OptionError(f"max_length={length} leaves no room after {prompt_length} prompt tokens")
    return tokens
