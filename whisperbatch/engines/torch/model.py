"""A Whisper model in PyTorch, with what goes with it: loaded from a directory of weights."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from tokenizers import Tokenizer

from whisperbatch.engines.layout import Arrays, alignment_heads
from whisperbatch.engines.search.alignment import Trace
from whisperbatch.engines.search.beam_search import (
    Ahead,
    Candidates,
    SearchResult,
    Steps,
    sample,
    search,
)
from whisperbatch.engines.special_tokens import MULTILINGUAL, SpecialTokens, language_tokens
from whisperbatch.engines.torch.logits_processors import Rule, rules
from whisperbatch.engines.torch.network import Network, build
from whisperbatch.engines.torch.quantization import GROUP_SIZE, Quantization
from whisperbatch.engines.torch.speculative import Guessing, Reader
from whisperbatch.engines.torch.steps import Drawn, Likeliest, Pick, Reading
from whisperbatch.engines.torch.transformers_weights import SavedArrays, read_settings
from whisperbatch.errors import ModelError
from whisperbatch.models.model_bin import read_arrays
from whisperbatch.options import MOST_TOKENS, DecodeOptions
from whisperbatch.protocols import Alignment, Sampling
from whisperbatch.types import Hypothesis

Tensor: TypeAlias = torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchModel:
    """A model, ready to run; for one batch at a time.

    Attributes:
        network: encoder and decoder.
        config: CTranslate2's config.json, or what it would say.
        tokenizer: of its vocabulary.
        special: ids of its special tokens.
        n_mels: mel bands that the encoder wants.
    """

    network: Network
    config: Mapping[str, Any]
    tokenizer: Tokenizer
    special: SpecialTokens
    n_mels: int

    @property
    def size(self) -> int:
        """Of the vocabulary."""
        return len(self.network.decoder.vocabulary.weight)

    @property
    def is_multilingual(self) -> bool:
        """See `protocols.Engine`."""
        return self.size >= MULTILINGUAL

    def rules(self, options: DecodeOptions, prompt: Sequence[int]) -> list[Rule]:
        """What may be said after prompts like this one."""
        return rules(
            options,
            self.config,
            self.special,
            (self.size, self.network.memory.device),
            timestamps=self.special.no_timestamps not in prompt,
        )

    def most(self, options: DecodeOptions, prompt: Sequence[int]) -> int:
        """Tokens of a text after prompts like this one."""
        room = len(self.network.decoder.positions) - len(prompt)
        return min(options.max_new_tokens or MOST_TOKENS, room)

    def hypotheses(self, found: Sequence[SearchResult], at_start: Tensor) -> list[Hypothesis]:
        """What was found, with the logits (rows, vocabulary) after the start of transcript."""
        unsaid = at_start.softmax(-1)[:, self.special.no_speech].tolist()
        return [
            Hypothesis(one.tokens, one.logprob / (len(one.tokens) + 1), probability)
            for one, probability in zip(found, unsaid, strict=True)
        ]

    def generate(
        self,
        output: Tensor,
        prompts: Sequence[Sequence[int]],
        options: DecodeOptions,
        sampling: Sequence[Sampling] | None,
    ) -> list[Hypothesis]:
        """The hypothesis of each row of encoder output."""
        most = self.most(options, prompts[0])
        beams = sampling[0].best_of if sampling else options.beam_size
        sequences = self.network.sequences(output, beams=beams, most=len(prompts[0]) + most)
        pick: Pick = (
            Drawn(sampling, most, output.device) if sampling else Likeliest(2 * options.beam_size)
        )
        reading = Reading(sequences, self.network.logits, self.rules(options, prompts[0]), pick)
        start = list(prompts[0]).index(self.special.start_of_transcript)
        first, at_start = reading.first(np.array(prompts), start)
        end = self.special.end_of_text
        if sampling:
            return self.hypotheses(sample(reading, first, most=most, end=end), at_start)
        return self.hypotheses(searched(reading, first, options, most=most, end=end), at_start)

    def generate_with(
        self,
        output: Tensor,
        draft_model: "TorchModel",
        heard: Tensor,
        prompts: Sequence[Sequence[int]],
        options: DecodeOptions,
    ) -> list[Hypothesis]:
        """Greedily, what `generate` gives, with guesses of a model that has heard the rows, too."""
        most = self.most(options, prompts[0])
        readers = [
            Reader(
                model.network.sequences(what, beams=1, most=len(prompts[0]) + most),
                model.network.logits,
                model.rules(options, prompts[0]),
            )
            for model, what in ((self, output), (draft_model, heard))
        ]
        guessing = Guessing(*readers)
        start = list(prompts[0]).index(self.special.start_of_transcript)
        first, at_start = guessing.first(np.array(prompts), start)
        end = self.special.end_of_text
        found = searched(guessing, first, options, most=most, end=end, ahead=guessing.ahead)
        guessing.finish()
        return self.hypotheses(found, at_start)

    def languages(self, output: Tensor) -> list[dict[str, float]]:
        """Probability of each language, for each row of encoder output."""
        tokens = np.full((len(output), 1, 1), self.special.start_of_transcript)
        hidden = self.network.sequences(output, most=1).read(tokens, np.zeros_like(tokens))
        known = language_tokens(self.tokenizer)
        logits = self.network.logits(hidden[:, 0, 0])[:, list(known.values())]
        return [dict(zip(known, row, strict=True)) for row in logits.softmax(-1).tolist()]

    def align(
        self,
        output: Tensor,
        prompts: Sequence[Sequence[int]],
        tokens: Sequence[Sequence[int]],
        frames: Sequence[int],
    ) -> list[Alignment]:
        """Where the tokens of rows lie: each read as a whole, by the heads that follow the speech.

        Shorter texts are filled up behind, where nothing looks.
        """
        before, longest = len(prompts[0]), max(map(len, tokens))
        silent, end = self.special.no_timestamps, self.special.end_of_text
        texts = np.full((len(tokens), before + 1 + longest), end)
        for text, prompt, said in zip(texts, prompts, tokens, strict=True):
            text[: before + 1 + len(said)] = [*prompt, silent, *said]
        heads = alignment_heads(self.network.decoder.layout, self.config)
        sequences = self.network.sequences(output, most=texts.shape[1])
        hidden, queries, keys = sequences.followed(texts, heads)
        found = []
        for row, said in enumerate(tokens):
            logits = self.network.logits(hidden[row, before : before + len(said)])[:, :end]
            logprobs = logits.log_softmax(-1)[range(len(said)), list(said)]
            asked = queries[row, :, : before + 1 + len(said)].cpu().numpy()
            trace = Trace(tuple(said), tuple(logprobs.tolist()), asked, keys[row].cpu().numpy())
            found.append(trace.alignment(frames[row]))
        return found


def searched(
    steps: Steps,
    first: Candidates,
    options: DecodeOptions,
    *,
    most: int,
    end: int,
    ahead: Ahead | None = None,
) -> list[SearchResult]:
    """`search`, by the options."""
    return search(
        steps,
        first,
        beam_size=options.beam_size,
        patience=options.patience if options.beam_size > 1 else 1.0,
        length_penalty=options.length_penalty,
        most=most,
        end=end,
        ahead=ahead,
    )


def load_model(
    directory: Path,
    *,
    dtype: torch.dtype,
    device: torch.device,
    compiled: bool,
    quantization: Quantization | None = None,
    group_size: int = GROUP_SIZE,
) -> TorchModel:
    """A model from a directory of CTranslate2 weights, or of transformers'. See `build`.

    Raises:
        ModelError: the weights are not to be used.
    """
    try:
        arrays, config = read_weights(directory)
        return TorchModel(
            network=build(
                arrays,
                dtype=dtype,
                device=device,
                compiled=compiled,
                quantization=quantization,
                group_size=group_size,
            ),
            config=config,
            tokenizer=(tokenizer := Tokenizer.from_file(str(directory / "tokenizer.json"))),
            special=SpecialTokens.of(tokenizer),
            n_mels=arrays["encoder/conv1/weight"].shape[1],
        )
    except ModelError:
        raise
    except Exception as error:  # tokenizers raises bare Exception
        raise ModelError(f"{directory}: the weights do not load: {error}") from error


def read_weights(directory: Path) -> tuple[Arrays, Mapping[str, Any]]:
    """Arrays and settings of a model, both by CTranslate2's names.

    Raises:
        ModelError: model.bin is damaged. A damaged file of transformers' raises another error.
    """
    path = directory / "model.bin"
    if not path.exists():
        return SavedArrays(directory), read_settings(directory)
    settings: dict[str, Any] = json.loads((directory / "config.json").read_bytes())
    return read_arrays(path, ""), settings
