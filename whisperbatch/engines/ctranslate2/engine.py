"""Whisper on CTranslate2, for CPU and CUDA; OpenVINO may run encoder and decoder on a CPU.

    features -> encode -> encoder output -> generate -> hypotheses
                                         -> align    -> times of their tokens

The weights of CTranslate2 are loaded only when a call needs them: OpenVINO's decoder leaves
sampling, penalties and timestamp tokens to CTranslate2.
"""

import functools
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import ctranslate2
import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from whisperbatch.engines.ctranslate2.conversion import (
    NO_TOKENS,
    EncoderOutput,
    check_output,
    generation_settings,
    join_rows,
    prefix_of,
    split_rows,
    to_alignment,
    to_array,
    to_hypothesis,
)
from whisperbatch.engines.ctranslate2.weights import CTranslate2Weights, return_memory_to_system
from whisperbatch.engines.devices import (
    choose_backend,
    choose_compute_type,
    choose_device,
    resolve_threads,
)
from whisperbatch.engines.openvino.loading import OpenVinoParts, load_openvino
from whisperbatch.engines.special_tokens import (
    MIN_MULTILINGUAL_VOCABULARY,
    language_tokens,
)
from whisperbatch.errors import ClosedError, EngineError, ModelError
from whisperbatch.models.model_bin import fingerprint, read_shapes
from whisperbatch.options import DecodeOptions
from whisperbatch.protocols import Alignment, Encoded, Sampling
from whisperbatch.types import Hypothesis

log = logging.getLogger(__name__)


class CTranslate2Engine:
    """A Whisper model on CTranslate2. See `protocols.Engine`.

    Args:
        directory: of the weights.
        name: of the model, for messages.
        device: "cpu", "cuda", or "auto".
        device_index: CUDA devices, each with its own copy of the weights.
        compute_type: a compute type of CTranslate2, or "auto".
        encoder: "ctranslate2", "openvino", or "auto".
        decoder: "ctranslate2", "openvino", or "auto".
        inter_threads: batches in progress at a time on each device.
        intra_threads: threads for each batch on a CPU; 0 shares out the cores.

    Raises:
        OptionError: device or compute type are not available on this machine.
        ModelError: the weights do not load.
    """

    def __init__(
        self,
        directory: Path,
        *,
        name: str,
        device: str = "auto",
        device_index: tuple[int, ...] = (0,),
        compute_type: str = "auto",
        encoder: str = "auto",
        decoder: str = "auto",
        inter_threads: int = 1,
        intra_threads: int = 0,
    ) -> None:
        self._device = choose_device(device, device_index)
        self._compute_type = choose_compute_type(compute_type, self._device, device_index[0])
        backends = {
            part: choose_backend(part, backend, self._device, self._compute_type)
            for part, backend in (("encoder", encoder), ("decoder", decoder))
        }
        inter_threads, intra_threads = resolve_threads(inter_threads, intra_threads)
        self.name = name
        self._directory = directory
        self._weights = CTranslate2Weights(
            directory,
            device=self._device,
            device_index=list(device_index),
            compute_type=self._compute_type,
            inter_threads=inter_threads,
            intra_threads=intra_threads,
        )
        try:
            self.tokenizer: Tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        except Exception as error:  # tokenizers raises bare Exception
            raise ModelError(f"{directory}: the tokenizer does not load: {error}") from error
        shapes = read_shapes(directory / "model.bin")
        vocabulary_size = shapes["decoder/embeddings/weight"][0]
        self.is_multilingual: bool = vocabulary_size >= MIN_MULTILINGUAL_VOCABULARY
        self.n_mels: int = shapes["encoder/conv1/weight"][1]
        self.workers: int = inter_threads * len(device_index)
        self._openvino = OpenVinoParts()
        if "openvino" in backends.values():
            try:
                self._openvino = load_openvino(
                    directory,
                    self.tokenizer,
                    encoder=backends["encoder"] == "openvino",
                    decoder=backends["decoder"] == "openvino",
                    compute_type=self._compute_type,
                    workers=inter_threads,
                    threads=intra_threads,
                )
            except ModelError as error:
                if "openvino" in (encoder, decoder):
                    raise
                log.info("encoder and decoder run on CTranslate2: %s", error)
            return_memory_to_system()
        if not (self._openvino.encoder and self._openvino.decoder):
            _ = self._weights.model
        # with several devices, any of them may decode a batch, so encoder output goes to the CPU
        self._to_cpu = len(device_index) > 1
        self._closed = False
        self._active_calls = 0
        self._calls_changed = threading.Condition()
        log.info(
            "model %s on %s (%s), %d worker(s)",
            name,
            self._device,
            self._compute_type,
            self.workers,
        )

    @functools.cached_property
    def fingerprint(self) -> str:
        """See `protocols.Engine`."""
        parts = {"encoder": self._openvino.encoder, "decoder": self._openvino.decoder}
        on_openvino = [f"{name} on OpenVINO" for name, part in parts.items() if part]
        libraries = [
            f"{name} {version(name)}"
            for name in ("ctranslate2", "openvino")[: 1 + bool(on_openvino)]
        ]
        device = f"{self._device} {self._compute_type}"
        return ", ".join([fingerprint(self._directory), device, *on_openvino, *libraries])

    def encode(self, features: npt.NDArray[np.float32]) -> Encoded:
        """See `protocols.Engine`."""
        features = np.ascontiguousarray(features)
        with self._call():
            if self._openvino.encoder:
                output = ctranslate2.StorageView.from_array(self._openvino.encoder(features))
            else:
                view = ctranslate2.StorageView.from_array(features)
                output = self._weights.model.encode(view, to_cpu=self._to_cpu)
        return EncoderOutput(len(features), output)

    def split(self, encoded: Encoded) -> list[Encoded]:
        """See `protocols.Engine`."""
        return [EncoderOutput(1, view) for view in split_rows(check_output(encoded).view)]

    def join(self, rows: Sequence[Encoded]) -> Encoded:
        """See `protocols.Engine`."""
        joined = join_rows([check_output(row).view for row in rows])
        return EncoderOutput(sum(row.rows for row in rows), joined)

    def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
        """See `protocols.Engine`."""
        if not self.is_multilingual:
            raise EngineError(f"model {self.name} is English-only: it cannot detect languages")
        view = check_output(encoded).view
        if decoder := self._openvino.decoder:
            tokens = language_tokens(self.tokenizer)
            with self._call():
                probabilities = decoder.languages(to_array(view), list(tokens.values()))
            return [dict(zip(tokens, row.tolist(), strict=True)) for row in probabilities]
        with self._call():
            rows = self._weights.model.detect_language(view)
        # CTranslate2 returns pairs such as ("<|en|>", 0.98)
        return [{token[2:-2]: probability for token, probability in row} for row in rows]

    def generate(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        options: DecodeOptions,
        sampling: Sequence[Sampling] | None = None,
    ) -> list[Hypothesis]:
        """See `protocols.Engine`. Sampling loads the weights again for each row."""
        output = check_output(encoded)
        decoder = self._openvino.decoder
        if decoder and sampling is None and decoder.supports(prompts, options):
            with self._call():
                hypotheses, traces = decoder.generate(to_array(output.view), prompts, options)
            output.traces.update(enumerate(traces))
            return_memory_to_system()
            return hypotheses
        with self._call():
            if sampling is not None:
                results = self._sample(output, prompts, options, sampling)
            else:
                results = self._weights.model.generate(
                    output.view,
                    [list(prompt) for prompt in prompts],
                    beam_size=options.beam_size,
                    patience=options.patience,
                    length_penalty=options.length_penalty,
                    **generation_settings(options, prompts),
                )
        length_penalty = options.length_penalty if sampling is None else 1.0
        return [
            to_hypothesis(result, length_penalty, prefix_of(prompt, self.tokenizer))
            for result, prompt in zip(results, prompts, strict=True)
        ]

    def _sample(
        self,
        output: EncoderOutput,
        prompts: Sequence[Sequence[int]],
        options: DecodeOptions,
        sampling: Sequence[Sampling],
    ) -> list[Any]:
        """Sample the rows one at a time, each with newly loaded weights.

        CTranslate2's random generators belong to the model's threads and are seeded only at their
        first use; on CUDA there is one generator for each place in the batch. So a seed gives the
        same sampled hypothesis each time only if the model has not sampled before and the row is
        alone in its batch.
        """
        results = []
        views = split_rows(output.view)
        for view, prompt, row_sampling in zip(views, prompts, sampling, strict=True):
            with _SEED_LOCK:
                ctranslate2.set_random_seed(row_sampling.seed)
                results += self._weights.load_for_sampling().generate(
                    view,
                    [list(prompt)],
                    beam_size=1,
                    num_hypotheses=row_sampling.best_of,
                    sampling_topk=0,
                    sampling_temperature=row_sampling.temperature,
                    **generation_settings(options, [prompt]),
                )
        return results

    def align(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        tokens: Sequence[Sequence[int]],
        frames: Sequence[int],
    ) -> list[Alignment]:
        """See `protocols.Engine`.

        Texts that OpenVINO decoded are aligned with the queries and keys that it kept. Other texts
        are aligned by CTranslate2, which reads each text again.
        """
        output = check_output(encoded)
        alignments = dict.fromkeys(range(len(prompts)), NO_TOKENS)
        remaining = []
        for row, row_tokens in enumerate(tokens):
            trace = output.traces.get(row)
            if row_tokens and trace is not None and trace.tokens == tuple(row_tokens):
                alignments[row] = trace.alignment(frames[row])
            elif row_tokens:
                remaining.append(row)
        if remaining:
            alignments |= self._align(output, prompts, tokens, frames, remaining)
        return list(alignments.values())

    def _align(
        self,
        output: EncoderOutput,
        prompts: Sequence[Sequence[int]],
        tokens: Sequence[Sequence[int]],
        frames: Sequence[int],
        rows: Sequence[int],
    ) -> dict[int, Alignment]:
        """Align `rows` by CTranslate2.

        CTranslate2 pads the rows of a call to the longest text. Padding changes the last digits of
        the attention, and sometimes a time. On a CPU each row therefore has a call of its own,
        which also takes a third less time. On CUDA there is a call for each start sequence, since
        a call takes only one.
        """
        if self._device == "cpu":
            views = split_rows(output.view)
            calls = [(views[row], [row], [row]) for row in rows]
        else:
            rows_by_prompt: dict[tuple[int, ...], list[int]] = {}
            for row in rows:
                rows_by_prompt.setdefault(tuple(prompts[row]), []).append(row)
            batch = list(range(len(prompts)))
            calls = [(output.view, batch, group) for group in rows_by_prompt.values()]
        alignments = {}
        for view, view_rows, aligned_rows in calls:
            with self._call():
                results = self._weights.model.align(
                    view,
                    list(prompts[aligned_rows[0]]),
                    [list(tokens[row]) if row in aligned_rows else [] for row in view_rows],
                    [max(frames[row], 2) for row in view_rows],
                )
            for row, result in zip(view_rows, results, strict=True):
                if row in aligned_rows:
                    alignments[row] = to_alignment(result)
        return alignments

    def close(self) -> None:
        """See `protocols.Engine`. Waits for calls in progress."""
        with self._calls_changed:
            if not self._closed:
                self._closed = True
                self._calls_changed.wait_for(lambda: not self._active_calls)
                self._weights.free()
                self._openvino = OpenVinoParts()
                return_memory_to_system()

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Count a call in progress, and raise the errors of CTranslate2 as EngineError."""
        with self._calls_changed:
            if self._closed:
                raise ClosedError(f"model {self.name} is closed")
            self._active_calls += 1
        try:
            yield
        except (RuntimeError, ValueError) as error:
            raise EngineError(f"model {self.name}: {error}") from error
        finally:
            with self._calls_changed:
                self._active_calls -= 1
                self._calls_changed.notify_all()


_SEED_LOCK: Final = threading.Lock()  # held from setting CTranslate2's only seed until its use
