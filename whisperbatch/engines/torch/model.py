"""A Whisper model in PyTorch, with its tokenizer and settings, loaded from a directory."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch

from whisperbatch.engines.alignment import DecodingTrace
from whisperbatch.engines.arrays import Arrays, alignment_heads
from whisperbatch.engines.model_info import ModelInfo, SpecialTokens, language_tokens
from whisperbatch.engines.search import (
    SearchResult,
    sample,
    search,
)
from whisperbatch.engines.settings import GROUP_SIZE, Quantization
from whisperbatch.engines.torch.decoding import (
    CachedModel,
    CandidateSelector,
    DecodingSteps,
    LogitsProcessor,
    SampledTokens,
    SpeculativeDecoding,
    TopTokens,
    make_logits_processors,
)
from whisperbatch.engines.torch.network import Network, build_network
from whisperbatch.engines.torch.transformers_weights import (
    SETTINGS,
    SafetensorsArrays,
    read_settings,
    settings_file,
    weight_files,
)
from whisperbatch.errors import ModelError
from whisperbatch.models.architecture import read_architecture
from whisperbatch.models.config import check_config
from whisperbatch.models.files import one_line
from whisperbatch.models.model_bin import read_arrays
from whisperbatch.options import MAX_NEW_TOKENS, SearchOptions
from whisperbatch.protocols import Alignment, AlignRequest, DecodeRequest, Hypothesis

Tensor: TypeAlias = torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchModel:
    """A model that is ready to run, for one batch at a time.

    Attributes:
        network: encoder and decoder.
        info: tokenizer, sizes and settings.
    """

    network: Network
    info: ModelInfo

    @property
    def special(self) -> SpecialTokens:
        """Ids of the special tokens."""
        return self.info.special

    def logits_processors(
        self, options: SearchOptions, request: DecodeRequest
    ) -> list[LogitsProcessor]:
        """Return the processors for texts with the prompt and the prefix of a request."""
        return make_logits_processors(
            options,
            self.info.config,
            self.special,
            self.info.vocabulary_size,
            self.network.pool.device,
            timestamps=self.special.no_timestamps not in request.prompt,
            prefix_length=len(request.prefix),
        )

    def max_tokens(self, options: SearchOptions, prompt: Sequence[int]) -> int:
        """Return the maximum number of tokens of a text after `prompt`."""
        free_positions = len(self.network.decoder.positions) - len(prompt)
        return min(options.max_new_tokens or MAX_NEW_TOKENS, free_positions)

    def hypotheses(
        self, results: Sequence[SearchResult], logits_at_start: Tensor
    ) -> list[Hypothesis]:
        """Convert the results of a search.

        Args:
            results: one for each row.
            logits_at_start: logits after the start of transcript, shape (rows, vocabulary).
        """
        no_speech = logits_at_start.softmax(-1)[:, self.special.no_speech].tolist()
        return list(map(SearchResult.to_hypothesis, results, no_speech))

    def generate(
        self, encoder_output: Tensor, requests: Sequence[DecodeRequest], options: SearchOptions
    ) -> list[Hypothesis]:
        """Return the hypothesis of each row of encoder output. See `protocols.Engine.decode`."""
        prompt = requests[0].prompt
        sampling = [request.sampling for request in requests if request.sampling]
        max_tokens = self.max_tokens(options, prompt)
        beams = sampling[0].best_of if sampling else options.beam_size
        select: CandidateSelector = (
            SampledTokens(sampling, max_tokens, encoder_output.device)
            if sampling
            else TopTokens(2 * options.beam_size)
        )
        steps = DecodingSteps(
            self.network.kv_cache(encoder_output, beams=beams, max_length=len(prompt) + max_tokens),
            self.network.logits,
            self.logits_processors(options, requests[0]),
            select,
        )
        first, logits_at_start = steps.prefill(
            np.array([request.prompt for request in requests]),
            prompt.index(self.special.start_of_transcript),
            len(requests[0].prefix),
        )
        end = self.special.end_of_text
        if sampling:
            results = sample(steps, first, max_tokens=max_tokens, end_of_text=end)
        else:
            results = search(
                steps,
                first,
                options,
                max_tokens=max_tokens,
                end_of_text=end,
                stop_loops=[request.stop_loops for request in requests],
            )
        return self.hypotheses(results, logits_at_start)

    def generate_speculatively(
        self,
        encoder_output: Tensor,
        draft_model: "TorchModel",
        draft_encoder_output: Tensor,
        requests: Sequence[DecodeRequest],
        options: SearchOptions,
    ) -> list[Hypothesis]:
        """Return the hypotheses of `generate` for greedy search, with a draft model's guesses."""
        prompt = requests[0].prompt
        max_tokens = self.max_tokens(options, prompt)
        cached_models = [
            CachedModel(
                model.network.kv_cache(output, beams=1, max_length=len(prompt) + max_tokens),
                model.network.logits,
                model.logits_processors(options, requests[0]),
            )
            for model, output in ((self, encoder_output), (draft_model, draft_encoder_output))
        ]
        steps = SpeculativeDecoding(*cached_models)
        first, logits_at_start = steps.prefill(
            np.array([request.prompt for request in requests]),
            prompt.index(self.special.start_of_transcript),
            len(requests[0].prefix),
        )
        results = search(
            steps,
            first,
            options,
            max_tokens=max_tokens,
            end_of_text=self.special.end_of_text,
            stop_loops=[request.stop_loops for request in requests],
            lookahead=steps.lookahead,
        )
        steps.log_statistics()
        return self.hypotheses(results, logits_at_start)

    def detect_language(self, encoder_output: Tensor) -> list[dict[str, float]]:
        """Return the probability of each language, for each row of encoder output."""
        tokens = np.full((len(encoder_output), 1, 1), self.special.start_of_transcript)
        kv_cache = self.network.kv_cache(encoder_output, max_length=1)
        hidden = kv_cache.forward(tokens, np.zeros_like(tokens))
        token_ids = language_tokens(self.info.tokenizer)
        logits = self.network.logits(hidden[:, 0, 0])[:, list(token_ids.values())]
        return [dict(zip(token_ids, row, strict=True)) for row in logits.softmax(-1).tolist()]

    def align(self, encoder_output: Tensor, texts: Sequence[AlignRequest]) -> list[Alignment]:
        """Return the alignment of each row's tokens. See `protocols.Engine.align`.

        One call of the decoder processes the complete texts. Shorter texts are padded at the end,
        where attention is causal and the padding has no effect.
        """
        no_timestamps, end = self.special.no_timestamps, self.special.end_of_text
        prompts = [(*text.start, no_timestamps, *text.tokens) for text in texts]
        tokens = np.full((len(texts), max(map(len, prompts))), end)
        for row_tokens, prompt in zip(tokens, prompts, strict=True):
            row_tokens[: len(prompt)] = prompt
        heads = alignment_heads(self.network.decoder.layout, self.info.config)
        kv_cache = self.network.kv_cache(encoder_output, max_length=tokens.shape[1])
        hidden, queries, keys = kv_cache.forward_with_attention(tokens, heads)
        alignments = []
        for row, text in enumerate(texts):
            first, last = len(text.start), len(text.start) + len(text.tokens)
            logits = self.network.logits(hidden[row, first:last])[:, :end]
            logprobs = logits.log_softmax(-1)[range(len(text.tokens)), list(text.tokens)]
            trace = DecodingTrace(
                text.tokens,
                tuple(logprobs.tolist()),
                queries[row, :, : last + 1].cpu().numpy(),
                keys[row].cpu().numpy(),
            )
            alignments.append(trace.alignment(text.frames, end))
        return alignments


def load_model(
    directory: Path,
    *,
    dtype: torch.dtype,
    device: torch.device,
    compiled: bool,
    quantization: Quantization | None = None,
    group_size: int = GROUP_SIZE,
) -> TorchModel:
    """Load a model from a directory of CTranslate2 or transformers weights.

    See `build_network` for the other arguments.

    Raises:
        ModelError: the weights do not load.
    """
    try:
        arrays, info = read_model(directory)
        return TorchModel(
            network=build_network(
                arrays,
                dtype=dtype,
                device=device,
                compiled=compiled,
                quantization=quantization,
                group_size=group_size,
            ),
            info=info,
        )
    except ModelError:
        raise
    except Exception as error:  # PyTorch raises many types
        raise ModelError(
            f"{directory}: the weights do not load ({one_line(error)}); download or convert the "
            "model again"
        ) from error


def read_model(directory: Path) -> tuple[Arrays, ModelInfo]:
    """Return the arrays of a model by CTranslate2's names, and the checked model.

    Raises:
        ModelError: a file is missing or damaged, or belongs to another model.
    """
    weights, name = directory / "model.bin", str(directory)
    if weights.exists():
        info = ModelInfo.read(directory, name)
        info.check_projection()
        return read_arrays(weights, ""), info
    arrays = SafetensorsArrays(directory)
    architecture = read_architecture(arrays.headers(), weight_files(directory)[0])
    config = check_config(
        read_settings(directory), settings_file(directory), architecture, SETTINGS
    )
    return arrays, ModelInfo.with_tokenizer(directory, name, architecture, config)
