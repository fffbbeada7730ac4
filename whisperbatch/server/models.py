"""The models that the server serves, by name: loaded, warmed up, and closed when they are not used.

"base"                                  a model of the server, by its own name
"fast"                                  an alias that the settings give to a model
"whisper-1", "gpt-4o-transcribe", ...   the first model, unless the name is an alias
any other name                          404

A model is closed when memory is short, or when it has had no request for the time to live. The next
request loads it again. Requests for other models do not wait for this.
"""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import PurePath
from types import MappingProxyType
from typing import Final

import numpy as np

import whisperbatch as wb
from whisperbatch.options import DiarizerChoice
from whisperbatch.runtimes.machine import process_memory
from whisperbatch.server.errors import ApiError
from whisperbatch.server.speakers import MODELS as WITH_SPEAKERS
from whisperbatch.text import shown

OPENAI_NAMES: Final = re.compile(
    rf"whisper-1|gpt-(4o-)?(mini-)?transcribe(-\d{{4}}-\d\d-\d\d)?|{WITH_SPEAKERS.pattern}"
    r"|gpt-(4o-)?(mini-)?(realtime|live)(-[\w.-]*)?"  # of live sessions
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
        loaded: time at which the model was loaded, in seconds since 1970.
        users: number of requests that use the model now.
        used: time of the last use, on the monotonic clock.
        loading: held while the model is loaded or closed.
        closing: closes the model after the time to live; None without a time to live, and while
            requests use the model.
    """

    source: str
    name: str
    asr: wb.Transcriber | None = None
    loaded: float = 0.0
    users: int = 0
    used: float = 0.0
    loading: asyncio.Lock = field(default_factory=asyncio.Lock)
    closing: asyncio.TimerHandle | None = None


class Models:
    """The models of a server. For one event loop.

    Args:
        sources: the models, each as in `load`; the first is the default.
        load: loads a model.
        max_memory: when the process needs more bytes than this, models without requests are closed,
            the least recently used first. They are loaded again when a request needs them. None for
            no limit.
        aliases: more names for clients; name -> name of the model.
        ttl: a model without requests for so many seconds is closed. 0: models stay loaded.

    Raises:
        OptionError: an alias means no model of the server, or is the name of a model.
    """

    def __init__(
        self,
        sources: Sequence[str],
        load: Callable[[str], wb.Transcriber],
        max_memory: int | None = None,
        *,
        aliases: Mapping[str, str] = MappingProxyType({}),
        ttl: float = 0.0,
    ) -> None:
        self._load = load
        self._max_memory = max_memory
        self._ttl = ttl
        self._tasks: set[asyncio.Task[None]] = set()
        self._models: dict[str, ServedModel] = {}
        self._diarizer_loading = asyncio.Lock()
        self._diarizers: list[DiarizerChoice] = []
        for source in sources:
            name = PurePath(source).name if PurePath(source).is_absolute() else source
            self._models[name] = ServedModel(source, name)
        self.aliases = dict(aliases)
        for alias, name in aliases.items():
            if name not in self._models:
                raise wb.OptionError(
                    f"alias: {shown(alias)} means the model {shown(name)}, but this server has "
                    f"{', '.join(self._models)}; add the model to the setting model"
                )
            if alias in self._models:
                raise wb.OptionError(f"alias: {shown(alias)} is already the name of a model")

    @property
    def names(self) -> list[str]:
        """The names of the models, the default first."""
        return list(self._models)

    @property
    def loaded(self) -> list[wb.Transcriber]:
        """The models that are loaded now."""
        return [model.asr for model in self._models.values() if model.asr]

    @property
    def present(self) -> list[ServedModel]:
        """The models that are loaded now, with the names and times of their use."""
        return [model for model in self._models.values() if model.asr]

    def seconds_left(self, model: ServedModel) -> float | None:
        """Return the seconds after which a model is closed; None if no time is set."""
        if model.closing is None or model.users:
            return None
        return max(model.used + self._ttl - time.monotonic(), 0.0)

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
            self._note_use(model)

    async def unload(self, model: ServedModel, *, force: bool = False) -> bool:
        """Close a model. The next request for the model loads it again.

        Args:
            model: of this server.
            force: end the requests that use the model; they get the status 503.

        Returns:
            Whether the model was loaded.

        Raises:
            ApiError: requests use the model (409).
        """
        async with model.loading:
            if model.users and not force:
                raise ApiError(
                    409,
                    f"{model.users} requests use the model {model.name}; repeat the request later, "
                    'or send "force": true to end them',
                    param="model",
                    code="model_in_use",
                    may_retry=False,
                )
            was_loaded = model.asr is not None
            await self._close(model, "as requested")
            return was_loaded

    async def load_diarizer(self, choice: DiarizerChoice) -> None:
        """Load a diarizer of the server, which all models share, if it is not loaded.

        Args:
            choice: the option `diarizer`. Requests cannot change this option.

        Raises:
            MissingExtraError: the diarizer is not installed.
            ModelError: the weights of the diarizer are damaged.
        """
        async with self._diarizer_loading:
            if choice not in self._diarizers:
                log.info("loading the diarizer")
                await asyncio.to_thread(wb.diarize, SILENCE, diarizer=choice)
                self._diarizers.append(choice)

    def find(self, name: str) -> ServedModel:
        """Return the model with a name.

        Raises:
            ApiError: there is no such model (404).
        """
        if (own := self.aliases.get(name, name)) in self._models:
            return self._models[own]
        if OPENAI_NAMES.fullmatch(name):
            return next(iter(self._models.values()))
        raise ApiError(
            404,
            f"the model {name[:100]!r} does not exist: this server has "
            f"{', '.join((*self._models, *self.aliases))}",
            param="model",
            code="model_not_found",
        )

    async def close(self) -> None:
        """Free all models; their requests end."""
        for model in self._models.values():
            await self._close(model, "at the end of the server")

    async def _make_ready(self, model: ServedModel) -> wb.Transcriber:
        async with model.loading:
            if model.asr is None:
                log.info("loading model %s", model.name)
                model.asr = await asyncio.to_thread(self._load_and_warm_up, model.source)
                model.loaded = time.time()
                self._note_use(model)
                await self._free_memory(model)
            return model.asr

    def _note_use(self, model: ServedModel) -> None:
        """Note the time, from which the time to live counts."""
        model.used = time.monotonic()
        if model.closing:
            model.closing.cancel()
            model.closing = None
        if self._ttl and model.asr:
            loop = asyncio.get_running_loop()
            model.closing = loop.call_later(self._ttl, self._begin_closing, model)

    def _begin_closing(self, model: ServedModel) -> None:
        task = asyncio.get_running_loop().create_task(self._close_unused(model))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close_unused(self, model: ServedModel) -> None:
        """Close a model whose time to live has passed. A model in use is not closed."""
        async with model.loading:
            model.closing = None
            if not model.users:
                await self._close(model, f"because no request used it for {self._ttl:g} s")

    async def _close(self, model: ServedModel, reason: str) -> None:
        if model.closing:
            model.closing.cancel()
            model.closing = None
        if model.asr:
            log.info("closing model %s, %s", model.name, reason)
            asr, model.asr = model.asr, None
            await asyncio.to_thread(asr.close)

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
            await self._close(min(idle, key=lambda model: model.used), "because memory is short")

    def _is_over_limit(self) -> bool:
        memory = process_memory()
        return self._max_memory is not None and memory is not None and memory > self._max_memory
