"""The models that the server serves, by name: loaded, warmed up, and closed when memory is short.

"whisper-1", "gpt-4o-transcribe", ...   the first model
"base"                                  a model of the server, by its own name
any other name                          404
"""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final

import numpy as np

import whisperbatch as wb
from whisperbatch.options import DiarizerChoice
from whisperbatch.runtimes.machine import process_memory
from whisperbatch.server.errors import ApiError
from whisperbatch.server.speakers import MODELS as WITH_SPEAKERS

OPENAI_NAMES: Final = re.compile(
    rf"whisper-1|gpt-(4o-)?(mini-)?transcribe(-\d{{4}}-\d\d-\d\d)?|{WITH_SPEAKERS.pattern}"
)
SILENCE: Final = np.zeros(16_000, np.float32)  # one second

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class ServedModel:
    """A model of the server.

    Attributes:
        source: name, directory or repository, as in `load`.
        name: name for clients.
        asr: the loaded model; None while it is not loaded.
        users: number of requests that use the model now.
        used: time of the last use.
        loading: held while the model is loaded or closed.
    """

    source: str
    name: str
    asr: wb.Transcriber | None = None
    users: int = 0
    used: float = 0.0
    loading: asyncio.Lock = field(default_factory=asyncio.Lock)


class Models:
    """The models of a server. For one event loop.

    Args:
        sources: the models, each as in `load`; the first is the default.
        load: loads a model.
        max_memory: when the process needs more bytes than this, models without requests are closed,
            the least recently used first. They are loaded again when a request needs them. None for
            no limit: all models stay loaded.
    """

    def __init__(
        self,
        sources: Sequence[str],
        load: Callable[[str], wb.Transcriber],
        max_memory: int | None = None,
    ) -> None:
        self._load = load
        self._max_memory = max_memory
        self._models: dict[str, ServedModel] = {}
        self._diarizer_loading = asyncio.Lock()
        self._has_diarizer = False
        for source in sources:
            name = PurePath(source).name if PurePath(source).is_absolute() else source
            self._models[name] = ServedModel(source, name)

    @property
    def names(self) -> list[str]:
        """The names of the models, the default first."""
        return list(self._models)

    @property
    def loaded(self) -> list[wb.Transcriber]:
        """The models that are loaded now."""
        return [model.asr for model in self._models.values() if model.asr]

    async def prepare(self) -> None:
        """Load and warm up the models: all of them, or those that the memory limit allows.

        Raises:
            WhisperBatchError: a model cannot be loaded.
        """
        for model in self._models.values():
            await self._make_ready(model)
            if self._is_over_limit():
                break

    @asynccontextmanager
    async def using(self, name: str) -> AsyncIterator[wb.Transcriber]:
        """Keep a model loaded until the end of an `async with` block.

        Args:
            name: as the client gave it.

        Yields:
            The loaded model.

        Raises:
            ApiError: there is no such model (404).
            WhisperBatchError: the model cannot be loaded.
        """
        model = self.find(name)
        model.users += 1
        try:
            yield await self._make_ready(model)
        finally:
            model.users -= 1
            model.used = time.monotonic()

    async def load_diarizer(self, choice: DiarizerChoice) -> None:
        """Load the diarizer of the server, which all models share, if it is not loaded.

        Args:
            choice: the option `diarizer`. Requests cannot change this option.

        Raises:
            MissingExtraError: the diarizer is not installed.
            ModelError: the weights of the diarizer are damaged.
        """
        async with self._diarizer_loading:
            if not self._has_diarizer:
                log.info("loading the diarizer")
                await asyncio.to_thread(wb.diarize, SILENCE, diarizer=choice)
                self._has_diarizer = True

    def find(self, name: str) -> ServedModel:
        """Return the model with a name.

        Raises:
            ApiError: there is no such model (404).
        """
        if name in self._models:
            return self._models[name]
        if OPENAI_NAMES.fullmatch(name):
            return next(iter(self._models.values()))
        raise ApiError(
            404,
            f"the model {name[:100]!r} does not exist: this server has {', '.join(self._models)}",
            param="model",
            code="model_not_found",
        )

    async def close(self) -> None:
        """Free all models; their requests end."""
        for model in self._models.values():
            if model.asr:
                asr, model.asr = model.asr, None
                await asyncio.to_thread(asr.close)

    async def _make_ready(self, model: ServedModel) -> wb.Transcriber:
        async with model.loading:
            if model.asr is None:
                log.info("loading model %s", model.name)
                model.asr = await asyncio.to_thread(self._load_and_warm_up, model.source)
                model.used = time.monotonic()
                await self._free_memory(model)
            return model.asr

    def _load_and_warm_up(self, source: str) -> wb.Transcriber:
        asr = self._load(source)
        try:  # the first call of an engine takes longer than the others
            asr.transcribe(SILENCE, vad=False, language="en")
        except BaseException:
            asr.close()
            raise
        return asr

    async def _free_memory(self, needed: ServedModel) -> None:
        """Close models without requests while the process needs more memory than the limit."""
        while self._is_over_limit():
            idle = [
                model
                for model in self._models.values()
                if model.asr and not model.users and model is not needed
            ]
            if not idle:
                return
            oldest = min(idle, key=lambda model: model.used)
            log.info("closing model %s, because memory is short", oldest.name)
            asr, oldest.asr = oldest.asr, None
            if asr:
                await asyncio.to_thread(asr.close)

    def _is_over_limit(self) -> bool:
        memory = process_memory()
        return self._max_memory is not None and memory is not None and memory > self._max_memory
