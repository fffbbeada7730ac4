"""The model on each of its devices, and the threads that use a device.

    thread 1, thread 3 -> Replica on GPU 0: its weights
    thread 2, thread 4 -> Replica on GPU 1

CTranslate2 gives each thread a CUDA stream, on the GPU that the thread uses first. It takes memory
for every GPU with this stream (src/cuda/utils.cc, src/cuda/allocator.cc), and CUDA gives a stream
the memory of its own GPU. A thread that uses a second GPU would therefore pass it memory of the
first. So each thread uses one GPU only: its first call binds it to the GPU with the fewest threads.
Weights are loaded and freed in threads of their own. The first thread of a process that uses CUDA
has the default stream, with which all other streams wait; it is the thread of the first trial
(`cuda.cuda_problem`), which ends.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeVar
from weakref import WeakSet

from whisperbatch.engines.ctranslate2.cuda import device_fails, keep_memory, return_memory
from whisperbatch.engines.ctranslate2.weights import CTranslate2Weights
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.errors import BrokenDeviceError, EngineError
from whisperbatch.models.files import one_line
from whisperbatch.runtimes.failures import breaks_device, comes_from_cuda
from whisperbatch.threads import Lock, in_new_thread

log = logging.getLogger(__name__)

T = TypeVar("T")

REMEDY: Final = (
    "restart the process; if this happens again, run `whisperbatch doctor --device cuda`"
)


class _Presence:
    """Lives as long as a thread."""


class Replica:
    """The model on one device.

    Args:
        number: of the replica in the engine, from 0.
        index: number of the CUDA device; 0 on the CPU.
        weights: of the model.

    Attributes:
        problem: why the GPU cannot be used any more; None if it can.
        threads: of the threads that use this device.
    """

    def __init__(self, number: int, index: int, weights: CTranslate2Weights) -> None:
        self.number, self.index, self.weights = number, index, weights
        self.problem: str | None = None
        self.threads: WeakSet[_Presence] = WeakSet()

    def load(self) -> None:
        """Load the weights.

        Raises:
            ModelError: the weights do not load.
        """
        _ = self.weights.model


class Replicas:
    """The replicas of an engine. Thread-safe.

    Args:
        model: the model.
        device: "cpu" or "cuda".
        indexes: numbers of the CUDA devices.
        **settings: of `CTranslate2Weights`, beside the device.
    """

    def __init__(
        self,
        model: ModelInfo,
        device: Literal["cpu", "cuda"],
        indexes: Sequence[int],
        **settings: Any,  # noqa: ANN401 - CTranslate2's
    ) -> None:
        self._name, self._on_cuda = model.name, device == "cuda"
        self.all: Final = tuple(
            Replica(
                number,
                index,
                CTranslate2Weights(model, device=device, device_index=[index], **settings),
            )
            for number, index in enumerate(indexes)
        )
        self._thread = threading.local()
        self._lock = Lock()

    def load(self) -> None:
        """Load the weights on each device.

        Raises:
            ModelError: the weights do not load.
        """
        for replica in self.all:
            self._apart(replica.load)
            if self._on_cuda:
                keep_memory(replica.index)

    def free(self) -> None:
        """Free the weights on each device.

        Those on a broken GPU are left: CTranslate2 ends the process if CUDA does not free memory.
        """
        for replica in self.all:
            if replica.problem:
                continue
            try:
                self._apart(replica.weights.free)
            except EngineError:  # the program ends, and starts no more threads
                replica.weights.free()
            if self._on_cuda:
                return_memory(replica.index)

    def of_thread(self) -> Replica:
        """Return the replica of the current thread, which is bound to it by the first call."""
        replica: Replica | None = getattr(self._thread, "replica", None)
        return replica or self._bind(self.all)

    def run(self, replica: Replica, function: Callable[[Any], T]) -> T:
        """Return `function(model)`, with CTranslate2's model of a replica.

        Args:
            replica: of the encoder output, or of the thread.
            function: calls methods of the model. It runs in a thread of its own if the current
                thread is bound to another device.

        Raises:
            BrokenDeviceError: the GPU broke, or was broken before.
            RuntimeError: from CTranslate2.
        """
        if replica.problem:
            raise self._broken(replica)
        if getattr(self._thread, "replica", None) is None:
            self._bind([replica])
        call = partial(function, replica.weights.model)
        try:
            return call() if self.of_thread() is replica else in_new_thread(call)
        except RuntimeError as error:
            if not self._breaks(replica, error):
                raise
            replica.problem = one_line(error)
            broken = self._broken(replica)
            log.error("%s", broken)  # noqa: TRY400 - the error is raised, too
            raise broken from error

    def _bind(self, replicas: Sequence[Replica]) -> Replica:
        presence = _Presence()
        with self._lock:
            working = [replica for replica in replicas if not replica.problem] or replicas
            replica = min(working, key=lambda replica: len(replica.threads))
            replica.threads.add(presence)
        self._thread.replica, self._thread.presence = replica, presence
        return replica

    def _apart(self, function: Callable[[], object]) -> None:
        """Call a function; on CUDA in a new thread."""
        if self._on_cuda:
            in_new_thread(function)
        else:
            function()

    def _breaks(self, replica: Replica, error: RuntimeError) -> bool:
        return self._on_cuda and (
            breaks_device(error) or (comes_from_cuda(error) and device_fails(replica.index))
        )

    def _broken(self, replica: Replica) -> BrokenDeviceError:
        has_others = any(not other.problem for other in self.all)
        remedy = "the other GPUs go on; " if has_others else ""
        error = BrokenDeviceError(
            f"model {self._name}: GPU {replica.index} cannot be used any more in this process "
            f"({replica.problem}); {remedy}{REMEDY}"
        )
        error.has_others = has_others
        return error
