"""Whisper on CTranslate2: the engine that runs everywhere, CPU and CUDA."""

import functools
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import ctranslate2
import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from whisperbatch.engines.ctranslate2.weights import CTranslate2Weights, give_back_memory
from whisperbatch.engines.devices import (
    choose_compute_type,
    choose_device,
    choose_part,
    share_threads,
)
from whisperbatch.engines.openvino.loading import OpenVino, load_openvino
from whisperbatch.engines.search.alignment import POSITION, Trace
from whisperbatch.engines.special_tokens import MULTILINGUAL, language_tokens
from whisperbatch.errors import ClosedError, EngineError, ModelError
from whisperbatch.models.model_bin import fingerprint, read_shapes
from whisperbatch.options import MOST_TOKENS, DecodeOptions
from whisperbatch.protocols import Alignment, Encoded, Sampling
from whisperbatch.types import Hypothesis

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _Encoded:
    rows: int
    view: ctranslate2.StorageView  # (rows, positions, d_model)
    traces: dict[int, Trace] = field(default_factory=dict)  # of the rows that OpenVINO decoded


class CTranslate2Engine:
    """A Whisper model on CTranslate2. See `protocols.Engine`.

    Args:
        directory: of the weights.
        name: of the model, for messages.
        device: "cpu", "cuda", or "auto".
        device_index: CUDA devices, each with its own copy of the weights.
        compute_type: CTranslate2's name, or "auto".
        encoder: "ctranslate2", "openvino", or "auto".
        decoder: likewise.
        inter_threads: batches worked on at a time on each device.
        intra_threads: threads for each of them on a CPU; 0 shares out the cores.

    Raises:
        OptionError: device or compute type are not to be had here.
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
        chosen = choose_device(device, device_index)
        compute_type = choose_compute_type(compute_type, chosen, device_index[0])
        kinds = [
            choose_part(name, wanted, chosen, compute_type)
            for name, wanted in (("encoder", encoder), ("decoder", decoder))
        ]
        inter_threads, intra_threads = share_threads(inter_threads, intra_threads)
        self.name = name
        self._directory = directory
        self._device, self._compute_type = chosen, compute_type
        self._weights = CTranslate2Weights(
            directory,
            device=chosen,
            device_index=list(device_index),
            compute_type=compute_type,
            inter_threads=inter_threads,
            intra_threads=intra_threads,
        )
        try:
            self.tokenizer: Tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        except Exception as error:  # tokenizers raises bare Exception
            raise ModelError(f"{directory}: the tokenizer does not load: {error}") from error
        shapes = read_shapes(directory / "model.bin")
        self.is_multilingual: bool = shapes["decoder/embeddings/weight"][0] >= MULTILINGUAL
        self.n_mels: int = shapes["encoder/conv1/weight"][1]
        self.workers: int = inter_threads * len(device_index)
        self._openvino = OpenVino()
        if "openvino" in kinds:
            try:
                self._openvino = load_openvino(
                    directory,
                    self.tokenizer,
                    encoder=kinds[0] == "openvino",
                    decoder=kinds[1] == "openvino",
                    compute_type=compute_type,
                    workers=inter_threads,
                    threads=intra_threads,
                )
            except ModelError as error:
                if "openvino" in (encoder, decoder):
                    raise
                log.info("encoder and decoder on CTranslate2: %s", error)
            give_back_memory()
        if not (self._openvino.encoder and self._openvino.decoder):
            _ = self._weights.model
        # encoder output stays where it is, except where another device may take up the decoding
        self._to_cpu = len(device_index) > 1
        self._closed = False
        self._calls = 0  # going on
        self._idle = threading.Condition()
        log.info(
            "model %s on %s (%s), %d worker(s)",
            name,
            chosen,
            compute_type,
            self.workers,
        )

    @functools.cached_property
    def fingerprint(self) -> str:
        """See `protocols.Engine`."""
        parts = {"encoder": self._openvino.encoder, "decoder": self._openvino.decoder}
        kinds = [f"{name} on OpenVINO" for name, part in parts.items() if part]
        libraries = [
            f"{name} {version(name)}" for name in ("ctranslate2", "openvino")[: 1 + bool(kinds)]
        ]
        where = f"{self._device} {self._compute_type}"
        return ", ".join([fingerprint(self._directory), where, *kinds, *libraries])

    def encode(self, features: npt.NDArray[np.float32]) -> Encoded:
        """See `protocols.Engine`."""
        features = np.ascontiguousarray(features)
        with self._call():
            if self._openvino.encoder:
                encoded = ctranslate2.StorageView.from_array(self._openvino.encoder(features))
            else:
                view = ctranslate2.StorageView.from_array(features)
                encoded = self._weights.model.encode(view, to_cpu=self._to_cpu)
        return _Encoded(len(features), encoded)

    def split(self, encoded: Encoded) -> list[Encoded]:
        """See `protocols.Engine`."""
        return [_Encoded(1, view) for view in _rows(_own(encoded).view)]

    def join(self, rows: Sequence[Encoded]) -> Encoded:
        """See `protocols.Engine`."""
        views = [_own(row).view for row in rows]
        arrays = [_array(view) for view in views]
        joined = ctranslate2.StorageView.from_array(np.concatenate(arrays))
        return _Encoded(
            sum(row.rows for row in rows),
            joined if views[0].dtype == joined.dtype else joined.to(views[0].dtype),
        )

    def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
        """See `protocols.Engine`."""
        if not self.is_multilingual:
            raise EngineError(f"model {self.name} is English-only: it cannot detect languages")
        if decoder := self._openvino.decoder:
            tokens = language_tokens(self.tokenizer)
            with self._call():
                found = decoder.languages(_array(_own(encoded).view), list(tokens.values()))
            return [dict(zip(tokens, row.tolist(), strict=True)) for row in found]
        with self._call():
            rows = self._weights.model.detect_language(_own(encoded).view)
        return [{token[2:-2]: probability for token, probability in row} for row in rows]

    def generate(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        options: DecodeOptions,
        sampling: Sequence[Sampling] | None = None,
    ) -> list[Hypothesis]:
        """See `protocols.Engine`. To sample, the weights are loaded anew for each row."""
        decoder = self._openvino.decoder
        if decoder and sampling is None and decoder.serves(prompts, options):
            own = _own(encoded)
            with self._call():
                hypotheses, traces = decoder.generate(_array(own.view), prompts, options)
            own.traces.update(enumerate(traces))
            give_back_memory()
            return hypotheses
        with self._call():
            if sampling is not None:
                results = self._sample(_own(encoded), prompts, options, sampling)
            else:
                results = self._weights.model.generate(
                    _own(encoded).view,
                    [list(prompt) for prompt in prompts],
                    beam_size=options.beam_size,
                    patience=options.patience,
                    length_penalty=options.length_penalty,
                    **_shared(options, prompts),
                )
        penalty = options.length_penalty if sampling is None else 1.0
        return [_hypothesis(result, penalty) for result in results]

    def _sample(
        self,
        encoded: _Encoded,
        prompts: Sequence[Sequence[int]],
        options: DecodeOptions,
        sampling: Sequence[Sampling],
    ) -> list[Any]:
        """A row at a time, each by a model of its own.

        CTranslate2's generators belong to the model's threads, are seeded at their first use and
        never again, and on CUDA there is one for each place in the batch. So a sample is the same
        every time only from a model that has drawn none before, alone.
        """
        results = []
        views = _rows(encoded.view)
        for view, prompt, how in zip(views, prompts, sampling, strict=True):
            with _SEEDING:
                ctranslate2.set_random_seed(how.seed)
                results += self._weights.fresh().generate(
                    view,
                    [list(prompt)],
                    beam_size=1,
                    num_hypotheses=how.best_of,
                    sampling_topk=0,
                    sampling_temperature=how.temperature,
                    **_shared(options, [prompt]),
                )
        return results

    def align(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        tokens: Sequence[Sequence[int]],
        frames: Sequence[int],
    ) -> list[Alignment]:
        """See `protocols.Engine`. Dynamic time warping over cross-attention, by CTranslate2.

        Texts that OpenVINO has decoded are placed by what it has seen of them.

        It pads the rows of a call to the longest text, which changes the last digits of the
        others, and now and then a time. On a CPU each row has a call of its own: that takes a
        third less time, too. On CUDA there is a call for each start sequence, since it takes one.
        """
        results: list[Alignment] = [_NOTHING] * len(prompts)
        spoken = [row for row in range(len(prompts)) if tokens[row]]
        view, traces = _own(encoded).view, _own(encoded).traces
        for row in tuple(spoken):
            if row in traces and traces[row].tokens == tuple(tokens[row]):
                results[row] = traces[row].alignment(frames[row])
                spoken.remove(row)
        if not spoken:
            return results
        if self._device == "cpu":
            parts = _rows(view)
            calls = [(parts[row], [row]) for row in spoken]
        else:
            groups: dict[tuple[int, ...], list[int]] = {}
            for row in spoken:
                groups.setdefault(tuple(prompts[row]), []).append(row)
            calls = [(view, rows) for rows in groups.values()]
        for part, rows in calls:
            every = rows if self._device == "cpu" else range(len(prompts))
            with self._call():
                aligned = self._weights.model.align(
                    part,
                    list(prompts[rows[0]]),
                    [list(tokens[row]) if row in rows else [] for row in every],
                    [max(frames[row], 2) for row in every],
                )
            for row, found in zip(every, aligned, strict=True):
                if row in rows:
                    results[row] = _alignment(found)
        return results

    def close(self) -> None:
        """See `protocols.Engine`. Waits for calls that are going on."""
        with self._idle:
            if not self._closed:
                self._closed = True
                self._idle.wait_for(lambda: not self._calls)
                self._weights.free()
                self._openvino = OpenVino()
                give_back_memory()

    @contextmanager
    def _call(self) -> Iterator[None]:
        """A call to CTranslate2: counted, and its errors as the library's own."""
        with self._idle:
            if self._closed:
                raise ClosedError(f"model {self.name} is closed")
            self._calls += 1
        try:
            yield
        except (RuntimeError, ValueError) as error:
            raise EngineError(f"model {self.name}: {error}") from error
        finally:
            with self._idle:
                self._calls -= 1
                self._idle.notify_all()


_SEEDING: Final = threading.Lock()  # from setting CTranslate2's one seed to its use


def _shared(options: DecodeOptions, prompts: Sequence[Sequence[int]]) -> dict[str, Any]:
    """What searching and sampling have in common."""
    return {
        "repetition_penalty": options.repetition_penalty,
        "no_repeat_ngram_size": options.no_repeat_ngram_size,
        "suppress_blank": options.suppress_blank,
        "suppress_tokens": list(options.suppress_tokens),
        "max_initial_timestamp_index": round(options.max_initial_timestamp / POSITION),
        "max_length": _max_length(options.max_new_tokens, len(prompts[0])),
        "return_scores": True,
        "return_no_speech_prob": True,
    }


def _rows(view: ctranslate2.StorageView) -> list[ctranslate2.StorageView]:
    """Encoder output, a view for each row, on the CPU."""
    whole = _array(view)
    rows = [ctranslate2.StorageView.from_array(np.ascontiguousarray(row[None])) for row in whole]
    plain = ctranslate2.DataType.float32
    return rows if view.dtype == plain else [row.to(view.dtype) for row in rows]


def _array(view: ctranslate2.StorageView) -> npt.NDArray[np.float32]:
    return np.asarray(_on_cpu(view))


def _on_cpu(view: ctranslate2.StorageView) -> ctranslate2.StorageView:
    """In float32: numpy has no bfloat16."""
    there = view.to_device(ctranslate2.Device.cpu)
    plain = ctranslate2.DataType.float32
    return there if view.dtype == plain else there.to(plain)


_NOTHING: Final = Alignment(np.zeros(0), np.zeros(0), np.zeros(0))


def _own(encoded: Encoded) -> _Encoded:
    if not isinstance(encoded, _Encoded):
        raise EngineError("the encoder output comes from another engine")
    return encoded


def _max_length(max_new_tokens: int | None, prompt_length: int) -> int:
    """What to ask of CTranslate2, which decodes min(max_length / 2, max_length - start) tokens."""
    new = max_new_tokens or MOST_TOKENS
    return max(2 * new, new + prompt_length - 1)


def _hypothesis(result: Any, length_penalty: float) -> Hypothesis:  # noqa: ANN401 - untyped
    tokens = tuple(result.sequences_ids[0])
    total = result.scores[0] * max(len(tokens), 1) ** length_penalty
    return Hypothesis(tokens, total / (len(tokens) + 1), result.no_speech_prob)


def _alignment(result: Any) -> Alignment:  # noqa: ANN401 - untyped
    """A token lies from where the path enters it to where the path enters the next one."""
    path = np.array(result.alignments)  # (steps, 2): token, position; the end of text is last
    entered = np.concatenate(([True], np.diff(path[:, 0]) > 0))
    times = path[entered, 1] * POSITION
    probabilities = np.array(result.text_token_probs)
    count = len(probabilities)
    return Alignment(times[:count], times[1 : count + 1], probabilities)
