"""Short-lived keys for browsers: POST /v1/realtime/client_secrets, and the older path.

    backend  ── its key ──> POST {"expires_after": {...}, "session": {...}}  ──> "ek_..."
    browser  ── ek_... ──> /v1/realtime, with the configuration that the backend has given

A client secret opens live sessions only, as often as wanted, until it expires. It counts for the
key that has made it, and ends with this key. Secrets are in memory: a restart forgets them.
"""

import hashlib
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request

import whisperbatch as wb
from whisperbatch.live.settings import LiveSettings, live_options, split_keywords
from whisperbatch.server.admission import OWN_SHARE, Admission, busy
from whisperbatch.server.clients import SECRET_PREFIX, Client, Keys
from whisperbatch.server.errors import ApiError, invalid, shutting_down
from whisperbatch.server.guard import key_in_header
from whisperbatch.server.models import Models
from whisperbatch.server.realtime.configuration import Configuration, as_answer
from whisperbatch.server.realtime.old import current_session, old_session, with_old_names
from whisperbatch.server.realtime.protocol import new_id
from whisperbatch.server.settings import ServerSettings
from whisperbatch.server.submitting import client_of
from whisperbatch.server.uploads import receive_object

MIN_TIME: Final = 10  # seconds until a secret expires, as at OpenAI
MAX_TIME: Final = 7200
TIME: Final = 600
MAX_SECRETS: Final = 2000  # that have not expired; half of them for one client
MAX_BODY: Final = 100_000  # bytes
EXPIRES: Final = "expires_after"


@dataclass(frozen=True, slots=True)
class Secret:
    """A client secret.

    Attributes:
        key: that has made it; empty if the server needs no key.
        client: that has made it.
        expires: seconds since 1970.
        configuration: at the start of its sessions.
    """

    key: bytes
    client: Client
    expires: float
    configuration: Configuration


class Secrets:
    """The client secrets that have not expired. For one event loop.

    Args:
        keys: returns the keys of the server.
        now: clock, in seconds since 1970.

    Attributes:
        now: as given.
    """

    def __init__(self, keys: Callable[[], Keys], now: Callable[[], float] = time.time) -> None:
        self._keys, self.now = keys, now
        self._secrets: dict[bytes, Secret] = {}  # by the digest

    def add(self, secret: Secret) -> str:
        """Return the text of a new secret.

        Raises:
            ApiError: the client, or the server, has too many secrets (429).
        """
        now = self.now()
        self._secrets = {text: each for text, each in self._secrets.items() if each.expires > now}
        counts = Counter(each.client.name for each in self._secrets.values())
        own = int(MAX_SECRETS * OWN_SHARE)
        if counts[secret.client.name] >= own or len(self._secrets) >= MAX_SECRETS:
            first = min(each.expires for each in self._secrets.values())
            raise busy("there are too many client secrets", first - now)
        text = f"{SECRET_PREFIX}{secrets.token_hex(16)}"
        self._secrets[_digest(text.encode())] = secret
        return text

    def key_of(self, request: Request) -> bytes:
        """Return the key of a request that was let in; empty if the server needs no key."""
        return key_in_header(request.headers) if self._keys() else b""

    def find(self, given: bytes) -> Secret | None:
        """Return the secret that a handshake has; None if it has another kind of key, or none.

        Raises:
            ApiError: the secret is unknown or has expired, or its key is gone (401).
        """
        keys = self._keys()
        if not given.startswith(SECRET_PREFIX.encode()) or keys.find(given):
            return None
        secret = self._secrets.get(_digest(given))
        if secret and (secret.expires <= self.now() or (keys and not keys.find(secret.key))):
            secret = None
        if secret is None:
            raise ApiError(
                401,
                "the client secret is unknown or has expired; make another",
                code="invalid_api_key",
            )
        return secret

    def client_of(self, given: bytes, address: Client) -> Client | None:
        """Return the client for whom a session of a handshake counts.

        Args:
            given: the key of the handshake.
            address: of the handshake. It counts if the server needs no key.

        Returns:
            The client of the key that has made the secret; None if the key is no secret.

        Raises:
            ApiError: as `find`.
        """
        if secret := self.find(given):
            return self._keys().find(secret.key) or address
        return None


class ClientSecrets:
    """Answers requests for client secrets.

    Args:
        settings: of the server.
        models: the models.
        admission: says whether the server shuts down.
        known: the secrets.
    """

    def __init__(
        self, settings: ServerSettings, models: Models, admission: Admission, known: Secrets
    ) -> None:
        self._settings, self._models, self._admission = settings, models, admission
        self._known = known
        self._defaults = settings.default_options()

    async def create(self, request: Request) -> dict[str, Any]:
        """Return a new client secret, and the configuration of its sessions.

        Args:
            request: with a JSON object, whose fields may be left out: `expires_after` and
                `session`.

        Raises:
            ApiError: a field is wrong, there are too many secrets, or the server shuts down.
        """
        body = await self._receive(request)
        for name in body:
            if name not in (EXPIRES, "session"):
                raise invalid(f"{name[:50]} is unknown here", name[:50], "unknown_parameter")
        expires = self._expiry(body.get(EXPIRES), EXPIRES)
        text, secret, session = self._make(request, body.get("session"), expires)
        return {"value": text, "expires_at": int(secret.expires), "session": session}

    async def create_old(self, request: Request) -> dict[str, Any]:
        """Return a new client secret in the form of the old generation.

        Args:
            request: with a JSON object: the fields of `transcription_session.update`, and
                optionally `client_secret`, with `expires_at` in the form of `expires_after`.

        Raises:
            ApiError: as `create`.
        """
        body = await self._receive(request)
        given, path = body.pop("client_secret", None) or {}, "client_secret"
        if not isinstance(given, dict):
            raise invalid(f"{path} must be an object", path)
        expires = self._expiry(given.get("expires_at", given.get(EXPIRES)), f"{path}.expires_at")
        try:
            text, secret, session = self._make(request, current_session(body), expires)
        except ApiError as error:
            raise with_old_names(error) from error
        made = old_session(session, "transcription_session")
        return {**made, "client_secret": {"value": text, "expires_at": int(secret.expires)}}

    async def _receive(self, request: Request) -> dict[str, Any]:
        if self._admission.closed:
            raise shutting_down()
        example = '{"session": {"type": "transcription"}}'
        return await receive_object(request, self._settings.upload_limits, MAX_BODY, example)

    def _make(
        self, request: Request, given: object, seconds: int
    ) -> tuple[str, Secret, dict[str, Any]]:
        """Return a new secret as a text, what it stands for, and its sessions as the client sees.

        Raises:
            ApiError: the configuration is wrong, or there are too many secrets.
        """
        configuration = Configuration().updated(given)
        configuration.find_model(self._models)
        own, others = split_keywords(configuration.keywords_for(self._defaults))
        try:
            LiveSettings(**own)
            live_options(None, **others)
        except wb.OptionError as error:
            raise as_answer(error) from error
        expires = self._known.now() + seconds
        key, client = self._known.key_of(request), client_of(request)
        secret = Secret(key, client, expires, configuration)
        text = self._known.add(secret)
        session = configuration.value(self._models.names[0], self._defaults)
        described = {"id": new_id("sess"), "object": configuration.object_type, "expires_at": None}
        return text, secret, {**described, **session}

    def _expiry(self, given: object, path: str) -> int:
        """Return the seconds until a secret expires.

        Raises:
            ApiError: the field is wrong.
        """
        if given is None:
            return TIME
        if not isinstance(given, Mapping) or not set(given) <= {"anchor", "seconds"}:
            raise invalid(f"{path} must be an object with anchor and seconds", path)
        if given.get("anchor", "created_at") != "created_at":
            raise invalid(f"{path}.anchor must be created_at", f"{path}.anchor")
        seconds = given.get("seconds", TIME)
        if isinstance(seconds, bool) or not isinstance(seconds, int):
            raise invalid(f"{path}.seconds must be a whole number", f"{path}.seconds")
        if not MIN_TIME <= seconds <= MAX_TIME:
            raise invalid(
                f"{path}.seconds must be from {MIN_TIME} to {MAX_TIME}", f"{path}.seconds"
            )
        return seconds


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
