"""Whisper on CTranslate2, for CPU and CUDA.

    features -> encode -> encoder output -> decode -> hypotheses with the times of their tokens

`decode` calls CTranslate2 twice: `generate` decodes the rows, and `align` finds the times. Types of
CTranslate2 are converted to ours, and back.

On CUDA, encoder output stays on the GPU that computed it (`replicas.py`): all methods with this
output run there. The scheduler encodes a row again instead of storing its output.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final, Literal, TypeAlias, TypeVar

import ctranslate2
import numpy as np
import numpy.typing as npt

from whisperbatch.engines.alignment import NO_TOKENS, SECONDS_PER_POSITION
from whisperbatch.engines.calls import Calls, check_encoded
from whisperbatch.engines.ctranslate2.cuda import (
    FRAMES,
    RECOMMENDED,
    ctranslate2_version,
    total_memory,
    warn_of_old_version,
)
from whisperbatch.engines.ctranslate2.replicas import Replica, Replicas
from whisperbatch.engines.devices import choose_compute_type, share_cores
from whisperbatch.engines.memory import (
    MemoryUse,
    choose_batch_size,
    choose_batches,
    return_freed_memory,
)
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.engines.settings import CTranslate2Settings
from whisperbatch.errors import EngineError, OptionError
from whisperbatch.models.architecture import Architecture
from whisperbatch.models.files import one_line
from whisperbatch.options import DEFAULT_BATCH_SIZE, MAX_NEW_TOKENS, SearchOptions
from whisperbatch.protocols import (
    Alignment,
    AlignRequest,
    Decoded,
    DecodeRequest,
    Encoded,
    FeatureType,
    Hypothesis,
    Sampling,
)
from whisperbatch.text.messages import description, shown
from whisperbatch.threads import Lock, cached_property

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class EncodedView:
    """The encoder output of a batch. See `protocols.Encoded`.

    Attributes:
        rows: number of rows.
        view: shape (rows, positions, d_model).
        replica: number of the engine's replica that holds the view.
    """

    rows: int
    view: ctranslate2.StorageView
    replica: int = 0

    @classmethod
    def from_array(cls, output: npt.NDArray[np.float32]) -> "EncodedView":
        """Return encoder output of another engine, shape (rows, positions, d_model)."""
        view = ctranslate2.StorageView.from_array(np.ascontiguousarray(output))
        return cls(len(output), view)


def to_array(view: ctranslate2.StorageView) -> npt.NDArray[np.float32]:
    """Return encoder output as an array in float32, because NumPy has no bfloat16."""
    on_cpu = view.to_device(ctranslate2.Device.cpu)
    float32 = ctranslate2.DataType.float32
    return np.asarray(on_cpu if view.dtype == float32 else on_cpu.to(float32))


def split_rows(view: ctranslate2.StorageView) -> list[ctranslate2.StorageView]:
    """Return each row of encoder output as a view on the CPU, in the type of `view`."""
    rows = [
        ctranslate2.StorageView.from_array(np.ascontiguousarray(row[None]))
        for row in to_array(view)
    ]
    if view.dtype == ctranslate2.DataType.float32:
        return rows
    return [row.to(view.dtype) for row in rows]


def join_rows(views: Sequence[ctranslate2.StorageView]) -> ctranslate2.StorageView:
    """Return several encoder outputs as one batch on the CPU, in the type of the first."""
    joined = ctranslate2.StorageView.from_array(np.concatenate([to_array(view) for view in views]))
    dtype = views[0].dtype
    return joined if dtype == joined.dtype else joined.to(dtype)


def generation_settings(options: SearchOptions, prompt_length: int) -> dict[str, Any]:
    """Return the arguments of CTranslate2's `generate` that search and sampling share."""
    return {
        "repetition_penalty": options.repetition_penalty,
        "no_repeat_ngram_size": options.no_repeat_ngram_size,
        "suppress_blank": options.suppress_blank,
        "suppress_tokens": list(options.suppress_tokens),
        "max_initial_timestamp_index": round(options.max_initial_timestamp / SECONDS_PER_POSITION),
        "max_length": _max_length(options.max_new_tokens, prompt_length),
        "return_scores": True,
        "return_no_speech_prob": True,
    }


def generate(
    model: Any,  # noqa: ANN401 - untyped
    output: ctranslate2.StorageView,
    requests: Sequence[DecodeRequest],
    options: SearchOptions,
) -> list[Any]:
    """Search for the texts of rows, and return CTranslate2's results."""
    results: list[Any] = model.generate(
        output,
        [list(request.prompt) for request in requests],
        beam_size=options.beam_size,
        patience=options.patience,
        length_penalty=options.length_penalty,
        **generation_settings(options, len(requests[0].prompt)),
    )
    return results


def sample(
    model: Any,  # noqa: ANN401 - untyped
    output: ctranslate2.StorageView,
    requests: Sequence[DecodeRequest],
    options: SearchOptions,
) -> list[Any]:
    """Sample texts of rows in one call, on CUDA, and return CTranslate2's results.

    A seed does not repeat a sample. CTranslate2 seeds the generators of a thread at their first
    use, with the seed of the process, and has a generator for each place of the batch.
    """
    first, *_ = map(sampling_of, requests)
    ctranslate2.set_random_seed(first.seed)
    results: list[Any] = model.generate(
        output,
        [list(request.prompt) for request in requests],
        **sampling_settings(first),
        **generation_settings(options, len(requests[0].prompt)),
    )
    return results


def sampling_of(request: DecodeRequest) -> Sampling:
    """Return how to sample the text of a row.

    Raises:
        OptionError: the row is not sampled.
    """
    if request.sampling is None:
        raise OptionError("the rows of a batch must be all sampled, or none of them")
    return request.sampling


def sampling_settings(sampling: Sampling) -> dict[str, Any]:
    """Return the arguments of CTranslate2's `generate` that sample texts."""
    return {
        "beam_size": 1,
        "num_hypotheses": sampling.best_of,
        "sampling_topk": 0,
        "sampling_temperature": sampling.temperature,
    }


AlignCall: TypeAlias = tuple[ctranslate2.StorageView, Sequence[int], Sequence[int]]
"""Encoder output, the rows of the batch that it has, and those whose texts are aligned; their start
sequences are equal."""


def align_rows(
    model: Any,  # noqa: ANN401 - untyped
    calls: Iterable[AlignCall],
    texts: Sequence[AlignRequest],
) -> dict[int, Alignment]:
    """Align texts, and return the alignments of their rows.

    Args:
        model: CTranslate2's model.
        calls: of the model.
        texts: of all rows of the batch.
    """
    alignments = {}
    for view, view_rows, aligned_rows in calls:
        results = model.align(
            view,
            list(texts[aligned_rows[0]].start),
            [list(texts[row].tokens) if row in aligned_rows else [] for row in view_rows],
            [max(texts[row].frames, 2) for row in view_rows],
        )
        for row, result in zip(view_rows, results, strict=True):
            if row in aligned_rows:
                alignments[row] = to_alignment(result)
    return alignments


def _max_length(max_new_tokens: int | None, prompt_length: int) -> int:
    """Return the `max_length` with which CTranslate2 decodes `max_new_tokens` tokens.

    CTranslate2 decodes min(max_length / 2, max_length - prompt_length) tokens, where the prompt is
    counted without its last token.
    """
    new_tokens = max_new_tokens or MAX_NEW_TOKENS
    return max(2 * new_tokens, new_tokens + prompt_length - 1)


def to_hypothesis(result: Any, length_penalty: float, prefix: Sequence[int] = ()) -> Hypothesis:  # noqa: ANN401 - untyped
    """Return the best hypothesis of a row.

    Args:
        result: from CTranslate2's `generate`; its score is divided by the length penalty.
        length_penalty: exponent of the length by which the score was divided.
        prefix: the last tokens of the prompt that belong to the text. CTranslate2 returns them as
            part of the text, with a log-probability of 0.
    """
    text = tuple(result.sequences_ids[0])
    total_logprob = result.scores[0] * max(len(text), 1) ** length_penalty
    tokens = text[len(prefix) :] if text[: len(prefix)] == tuple(prefix) else text
    return Hypothesis(tokens, total_logprob / (len(tokens) + 1), result.no_speech_prob)


def to_alignment(result: Any) -> Alignment:  # noqa: ANN401 - untyped
    """Return the times of a row's tokens.

    A token begins where the DTW path enters the token, and ends where the path enters the next.

    Args:
        result: from CTranslate2's `align`.
    """
    path = np.array(result.alignments)  # (steps, 2): token, position; the end of text is last
    entries = np.concatenate(([True], np.diff(path[:, 0]) > 0))
    times = path[entries, 1] * SECONDS_PER_POSITION
    probabilities = np.array(result.text_token_probs)
    count = len(probabilities)
    return Alignment(times[:count], times[1 : count + 1], probabilities)


FLOAT16: Final = ("float16", "int8_float16")  # compute types whose hidden states are in float16

log = logging.getLogger(__name__)


class CTranslate2Engine:
    """A Whisper model on CTranslate2. See `protocols.Engine`.

    Args:
        model: the model.
        device: from `devices.choose_device`.
        settings: see `CTranslate2Settings`.
        load_weights: False loads the weights when a call needs them.

    Attributes:
        encodes_again: True on CUDA. There, 64 rows of turbo take about 250 MB in float16, which
            `split` and `join` copy to the memory of the CPU and back, and convert, in one thread.
        feature_type: float16 on CUDA, if CTranslate2 computes in float16. CTranslate2 would convert
            float32 on the CPU, in one thread, before it copies the features to the GPU
            (src/storage_view.cc, `move_to`). With 16 rows of 128 mel bands, the GPU would wait for
            13 ms or more.

    Raises:
        OptionError: a setting is not available on this machine, or Flash Attention is not in this
            build of CTranslate2.
        ModelError: the weights do not load.
    """

    def __init__(
        self,
        model: ModelInfo,
        *,
        device: Literal["cpu", "cuda"],
        settings: CTranslate2Settings | None = None,
        load_weights: bool = True,
    ) -> None:
        settings = settings or CTranslate2Settings()
        check_effect(settings, device)
        self._model, self._device, self._settings = model, device, settings
        self._compute_type = choose_compute_type(settings.compute_type, device, settings.devices)
        self.name, self.tokenizer = model.name, model.tokenizer
        self.is_multilingual, self.n_mels = model.is_multilingual, model.n_mels
        self.can_translate = model.can_translate
        in_float16 = device == "cuda" and self._compute_type in FLOAT16
        self.feature_type: FeatureType = np.float16 if in_float16 else np.float32
        self.encodes_again = device == "cuda"
        self._batches, threads = self._share_cores()
        self.workers: int = self._batches * len(settings.devices)
        self._replicas = Replicas(
            model,
            device,
            settings.devices,
            compute_type=self._compute_type,
            inter_threads=self._batches,
            intra_threads=threads,
            flash_attention=settings.flash_attention,
        )
        self._calls = Calls(model.name, self._renew)
        self._is_fallback = not load_weights
        if load_weights:
            if device == "cuda":
                warn_of_old_version()
            self._replicas.load()
            if settings.flash_attention:
                self._try_flash_attention()
            log.info(
                "model %s on %s (%s), CTranslate2, %d worker(s)",
                *(model.name, device, self._compute_type, self.workers),
            )

    def _share_cores(self) -> tuple[int, int]:
        """Return the batches that each device computes at a time, and the CPU threads for each.

        While a GPU waits for the CPU (copies, alignment, conversions), a second batch uses it.
        """
        given = self._settings.inter_threads
        if self._device == "cpu":
            return share_cores(given, self._settings.intra_threads)
        # with a thread for each of 16 cores, an hour with five beams took 100 s more of CPU time
        return given or choose_batches(self._memory(), self._memory_use()), 1

    def _memory(self) -> list[int | None]:
        """Return the total memory of each GPU, in bytes; None if it is unknown."""
        return [*map(total_memory, self._settings.devices)]

    def _memory_use(self) -> MemoryUse:
        return memory_use(self._model.architecture, self._compute_type)

    @cached_property
    def fingerprint(self) -> str:
        """See `protocols.Engine`."""
        return f"{self._model.fingerprint}, {self.description}{self._model.origin}"

    def __repr__(self) -> str:
        return description(self, shown(self._model.name), self._device, self._compute_type)

    @property
    def device(self) -> str:
        """See `protocols.EngineTraits`."""
        return self._device

    @property
    def description(self) -> str:
        """Device, types and library, for fingerprints."""
        device = f"{self._device} {self._compute_type}"
        attention = ["flash attention"] if self._settings.flash_attention else []
        return ", ".join([device, *attention, f"ctranslate2 {version('ctranslate2')}"])

    @property
    def ctranslate2_model(self) -> Any:  # noqa: ANN401 - untyped
        """CTranslate2's own model, for programs that call its methods. `close` frees it.

        With several GPUs, it is the model on the first.

        Raises:
            ClosedError: the engine is closed.
            EngineError: the weights do not load, or were loaded before a fork.
        """
        with self._calls():
            return self._replicas.all[0].weights.model

    def default_batch_size(self, hypotheses: int) -> int:
        """See `protocols.Engine`. On CUDA, the device with the least memory decides."""
        if self._device == "cpu":
            return DEFAULT_BATCH_SIZE
        return choose_batch_size(
            self._memory(), self._memory_use(), hypotheses=hypotheses, batches=self._batches
        )

    def check(self, options: SearchOptions) -> None:
        """See `protocols.Engine`: CTranslate2 honours all options."""

    def encode(self, features: npt.NDArray[np.floating[Any]]) -> Encoded:
        """See `protocols.Engine`."""

        def compute(model: Any) -> Any:  # noqa: ANN401 - untyped
            view = ctranslate2.StorageView.from_array(np.ascontiguousarray(features))
            return model.encode(view, to_cpu=False)

        replica = self._replicas.of_thread()
        return EncodedView(len(features), self._run(replica, compute), replica.number)

    def _run(self, replica: Replica, function: Callable[[Any], T]) -> T:
        """Return `function(model)`, with CTranslate2's model on a device.

        Raises:
            ClosedError: the engine is closed.
            EngineError: CTranslate2 failed, or the device is broken.
        """
        with self._calls():
            return self._replicas.run(replica, function)

    def split(self, encoded: Encoded) -> list[Encoded]:
        """See `protocols.Engine`."""
        return [
            EncodedView(1, view) for view in split_rows(check_encoded(encoded, EncodedView).view)
        ]

    def join(self, rows: Sequence[Encoded]) -> Encoded:
        """See `protocols.Engine`."""
        joined = join_rows([check_encoded(row, EncodedView).view for row in rows])
        return EncodedView(sum(row.rows for row in rows), joined)

    def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
        """See `protocols.Engine`."""
        self._model.check_multilingual()
        output = check_encoded(encoded, EncodedView)
        replica = self._replicas.all[output.replica]
        rows = self._run(replica, lambda model: model.detect_language(output.view))
        # CTranslate2 returns pairs such as ("<|en|>", 0.98)
        return [{token[2:-2]: probability for token, probability in row} for row in rows]

    def decode(
        self, encoded: Encoded, requests: Sequence[DecodeRequest], options: SearchOptions
    ) -> list[Decoded]:
        """See `protocols.Engine`."""
        output = check_encoded(encoded, EncodedView)
        sampled = requests[0].sampling is not None
        if sampled and self._device == "cpu":
            with self._calls():
                results = self._sample(output.view, requests, options)
        else:
            search = sample if sampled else generate
            replica = self._replicas.all[output.replica]
            results = self._run(
                replica, lambda model: search(model, output.view, requests, options)
            )
        length_penalty = 1.0 if sampled else options.length_penalty
        hypotheses = [
            to_hypothesis(result, length_penalty, request.prefix)
            for result, request in zip(results, requests, strict=True)
        ]
        texts = list(map(self._model.special.text_of, requests, hypotheses))
        return list(map(Decoded, hypotheses, self.align(output, texts)))

    def _sample(
        self,
        output: ctranslate2.StorageView,
        requests: Sequence[DecodeRequest],
        options: SearchOptions,
    ) -> list[Any]:
        """Sample the rows one at a time, each with a new sampler, on a CPU.

        CTranslate2's random generators belong to the model's threads and are seeded only at their
        first use. So a seed gives the same sampled hypothesis each time only if the model has not
        sampled before. The sampler's weights stay in memory (`weights.py`).
        """
        weights = self._replicas.all[0].weights
        results = []
        for view, request in zip(split_rows(output), requests, strict=True):
            sampling = sampling_of(request)
            with _SEED_LOCK:
                ctranslate2.set_random_seed(sampling.seed)
                results += weights.new_sampler().generate(
                    view,
                    [list(request.prompt)],
                    **sampling_settings(sampling),
                    **generation_settings(options, len(request.prompt)),
                )
        return results

    def align(self, encoded: Encoded, texts: Sequence[AlignRequest]) -> list[Alignment]:
        """See `protocols.Engine`.

        CTranslate2 pads the rows of a call to the longest text. Padding changes the last digits of
        the attention, and sometimes a time. On a CPU each row is therefore aligned in a separate
        call, which also takes a third less time.

        On CUDA there is a call for each start sequence, since a call takes only one, and it has all
        rows of the batch: the rows of other start sequences have no tokens. CTranslate2 cannot
        select rows on the GPU. A view of a part of an array (`__cuda_array_interface__`) always
        belongs to the first GPU, knows no bfloat16, and has consecutive rows only.
        """
        output = check_encoded(encoded, EncodedView)
        rows = [row for row, text in enumerate(texts) if text.tokens]
        calls: list[AlignCall]
        if self._device == "cpu":
            views = split_rows(output.view) if rows else []
            calls = [(views[row], [row], [row]) for row in rows]
        else:
            rows_by_start: dict[tuple[int, ...], list[int]] = {}
            for row in rows:
                rows_by_start.setdefault(texts[row].start, []).append(row)
            batch = range(len(texts))
            calls = [(output.view, batch, group) for group in rows_by_start.values()]
        replica = self._replicas.all[output.replica]
        aligned = self._run(replica, lambda model: align_rows(model, calls, texts))
        return [aligned.get(row, NO_TOKENS) for row in range(len(texts))]

    def close(self) -> None:
        """See `protocols.Engine`. Waits for calls in progress."""
        self._calls.close(self._free)

    def _renew(self, _was_busy: bool) -> None:
        """Go on in a child of a fork: a fallback loads its weights again.

        Raises:
            EngineError: the engine is no fallback. The child would need a copy of the weights that
                the user did not expect, and CUDA does not work at all.
        """
        if not self._is_fallback:
            raise EngineError(
                f"model {self.name} was loaded before a fork, and CTranslate2's threads exist only "
                "in the parent process; load the model in each worker process instead (do not "
                'preload the application), start the workers with "spawn", or load the model with '
                'engine="onnxruntime" or engine="openvino"'
            )

    def _free(self) -> None:
        self._replicas.free()
        return_freed_memory()

    def _try_flash_attention(self) -> None:
        """Decode a moment of silence: a build without Flash Attention 2 loads, and fails then.

        Raises:
            OptionError: CTranslate2 cannot compute Flash Attention 2.
        """
        silence = np.zeros((1, self.n_mels, FRAMES), self.feature_type)
        prompt = [self._model.special.start_of_transcript]
        try:
            self._replicas.all[0].weights.model.generate(
                ctranslate2.StorageView.from_array(silence), [prompt], max_length=2
            )
        except RuntimeError as error:
            self._replicas.free()
            raise OptionError(
                f"`flash_attention=True`: {one_line(error)}; CTranslate2's packages "
                "contain no Flash Attention since version 4.4: leave `flash_attention` out, or "
                "build CTranslate2 with it"
            ) from error


def memory_use(model: Architecture, compute_type: str) -> MemoryUse:
    """Return the memory that a model needs on CUDA.

    Args:
        model: sizes of the model.
        compute_type: from `devices.choose_compute_type`. "int8_float16" stores the weights in 8
            bits and computes in 16 bits; "int8" may compute in 32 bits.
    """
    in_16_bits = compute_type.endswith("float16")  # also bfloat16
    weight_bytes = 1 if compute_type.startswith("int8") else 2 if in_16_bits else 4
    return MemoryUse.of(
        model,
        weight_bytes=weight_bytes,
        value_bytes=2 if in_16_bits else 4,
        score_arrays=1 if ctranslate2_version() >= RECOMMENDED else 2,
    )


def check_effect(settings: CTranslate2Settings, device: Literal["cpu", "cuda"]) -> None:
    """Refuse settings that have no effect on this device.

    Raises:
        OptionError: the message names the setting.
    """
    if device == "cuda" and settings.intra_threads:
        raise OptionError(
            f"`intra_threads={settings.intra_threads}` has no effect on CUDA; leave it out"
        )
    if device == "cpu" and settings.flash_attention:
        raise OptionError("`flash_attention=True` needs CUDA; leave it out")


_SEED_LOCK: Final = Lock()  # held from setting CTranslate2's only seed until its use
