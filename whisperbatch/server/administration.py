"""Which models are loaded; loading and unloading them while the server runs.

GET  /api/ps                                         any client
POST /api/load    {"model": "base"}                  with the admin key
POST /api/unload  {"model": "base", "force": false}  with the admin key

Only models that the settings name can be loaded. A model that was unloaded is loaded again by the
next request for it.
"""

import hmac
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any, Final

from starlette.requests import Request

from whisperbatch.runtimes.machine import process_memory
from whisperbatch.server.admission import Admission
from whisperbatch.server.errors import ApiError, invalid, shutting_down
from whisperbatch.server.models import Models, ServedModel
from whisperbatch.server.settings import ServerSettings
from whisperbatch.server.uploads import receive_object

MAX_BODY: Final = 10_000  # bytes


class Administration:
    """Answers requests about the models themselves.

    Args:
        settings: of the server.
        models: the models, and those with a draft model.
        admission: says whether the server shuts down.
    """

    def __init__(
        self, settings: ServerSettings, models: Sequence[Models], admission: Admission
    ) -> None:
        self._settings, self._models, self._admission = settings, models, admission

    async def list_loaded(self) -> dict[str, Any]:
        """Return the loaded models, and the memory of the process in bytes."""
        loaded = [
            _describe(models, model, number)
            for number, models in enumerate(self._models)
            for model in models.present
        ]
        return {"models": loaded, "memory": process_memory()}

    async def load(self, request: Request) -> dict[str, Any]:
        """Load a model, and return what `list_loaded` says about it.

        Args:
            request: with a JSON object: `model`.

        Raises:
            ApiError: the key or the body is wrong, or there is no such model.
            WhisperBatchError: the model cannot be loaded.
        """
        values = await self._receive(request, ("model",))
        models = self._models[0]
        model = models.find(values["model"])
        async with models.using(model.name):
            pass
        return _describe(models, model, 0)

    async def unload(self, request: Request) -> dict[str, Any]:
        """Close a model, and return whether it was loaded.

        Args:
            request: with a JSON object: `model`, and optionally `force`, which ends the requests
                that use the model; they get the status 503.

        Raises:
            ApiError: the key or the body is wrong, there is no such model, or requests use the
                model (409).
        """
        values = await self._receive(request, ("model", "force"))
        name = self._models[0].find(values["model"]).name
        unloaded = False
        for models in reversed(self._models):
            if name in models.names:
                force = values.get("force", False)
                unloaded |= await models.unload(models.find(name), force=force)
        return {"name": name, "unloaded": unloaded}

    async def _receive(self, request: Request, names: Sequence[str]) -> dict[str, Any]:
        """Check the key, and return the values of the body.

        Raises:
            ApiError: the key or the body is wrong, or the server shuts down.
        """
        self._check_key(request)
        if self._admission.closed:
            raise shutting_down()
        limits = self._settings.upload_limits
        values = await receive_object(request, limits, MAX_BODY, '{"model": "base"}')
        if not isinstance(values.get("model"), str):
            raise invalid('model is missing: send {"model": "base"}', "model", "missing")
        for name in values:
            if name not in names:
                raise invalid(f"{name[:50]} is unknown here", name[:50], "unknown_parameter")
        if not isinstance(values.get("force", False), bool):
            raise invalid("force must be true or false", "force")
        return values

    def _check_key(self, request: Request) -> None:
        if self._settings.admin_key is None:
            raise ApiError(
                403,
                "this server has no admin key: set WHISPERBATCH_ADMIN_KEY, or use --admin-key",
                code="no_admin_key",
            )
        known = self._settings.admin_key.get_secret_value()
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        given = key.strip() if scheme.lower() == "bearer" else ""
        if not hmac.compare_digest(given.encode(), known.encode()):
            raise ApiError(
                401, "send the admin key: Authorization: Bearer KEY", code="invalid_api_key"
            )


def _describe(models: Models, model: ServedModel, number: int) -> dict[str, Any]:
    left = models.seconds_left(model)
    return {
        "name": model.name,
        "aliases": [alias for alias, name in models.aliases.items() if name == model.name],
        "draft_model": number > 0,
        "loaded_at": _time(model.loaded),
        "expires_at": None if left is None else _time(time.time() + left),
        "requests": model.users,
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
