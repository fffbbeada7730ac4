"""The old generation of the protocol, which clients used until May 2026.

    transcription_session.update {input_audio_format, input_audio_transcription, ...}
        ──> session.update {audio: {input: {format, transcription, ...}}}
    conversation.item.added ──> conversation.item.created;  conversation.item.done is left out

A client shows that it is old by the header `OpenAI-Beta`, by a subprotocol, or by the first event
`transcription_session.update`.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from starlette.datastructures import Headers

from whisperbatch.server.errors import ApiError
from whisperbatch.server.realtime.audio_formats import OLD_NAMES
from whisperbatch.server.realtime.configuration import INPUT
from whisperbatch.server.realtime.protocol import UPDATE, Event

OLD_UPDATE: Final = "transcription_session.update"
HEADER: Final = "openai-beta"
SUBPROTOCOL: Final = "openai-beta.realtime-v1"
FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "input_audio_format": "format",
        "input_audio_transcription": "transcription",
        "turn_detection": "turn_detection",
        "input_audio_noise_reduction": "noise_reduction",
    }
)
"""Field of an old session -> field of `audio.input`."""
TYPE_NAMES: Final = MappingProxyType({name: old for old, name in OLD_NAMES.items()})


def is_old(headers: Headers, subprotocols: Iterable[str]) -> bool:
    """Return whether a handshake is that of an old client."""
    return "realtime" in headers.get(HEADER, "") or SUBPROTOCOL in subprotocols


class OldGeneration:
    """Translates events of an old client, and events for the client.

    Args:
        transcription: whether the first event is that of a transcription session.
    """

    def __init__(self, *, transcription: bool) -> None:
        self._prefix = "transcription_session" if transcription else "session"

    def to_current(self, given: Event) -> Event:
        """Return an event of the client in the current form."""
        if given["type"] not in {UPDATE, OLD_UPDATE}:
            return given
        self._prefix = given["type"].rpartition(".")[0]
        session = given.get("session")
        if isinstance(session, dict) and "audio" not in session:
            session = current_session(session)
        return {**given, "type": UPDATE, "session": session}

    def to_old(self, made: Event) -> Event | None:
        """Return an event of the server in the old form; None if old clients get none."""
        kind = made["type"]
        if kind in {"session.created", "session.updated"}:
            state = kind.rpartition(".")[2]
            return {
                **made,
                "type": f"{self._prefix}.{state}",
                "session": old_session(made["session"], self._prefix),
            }
        if kind == "conversation.item.added":
            return {**made, "type": "conversation.item.created"}
        if kind == "conversation.item.done":
            return None
        if kind == "error":
            error = made["error"]
            changed = {name: _old_names(error[name]) for name in ("message", "param")}
            return {**made, "error": {**error, **changed}}
        return made


def current_session(session: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of an old client in the current form."""
    fields = {new: session[old] for old, new in FIELDS.items() if old in session}
    if isinstance(name := fields.get("format"), str):
        fields["format"] = {"type": OLD_NAMES.get(name, name)}
    # other fields of old sessions have no effect here, as in sessions with answers
    return {
        "type": "realtime",
        "audio": {"input": fields},
        **{name: session[name] for name in ("include",) if name in session},
    }


def with_old_names(error: ApiError) -> ApiError:
    """Return an error with the names of the old generation."""
    message = _old_names(error.message) or ""
    return ApiError(
        error.status,
        message,
        kind=error.type,
        param=_old_names(error.param),
        code=error.code,
        retry_after=error.retry_after,
        may_retry=error.may_retry,
    )


def old_session(session: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return a session in the old form.

    Args:
        session: in the current form.
        prefix: "transcription_session" or "session".
    """
    given = session["audio"]["input"]
    fields = {old: given[new] for old, new in FIELDS.items()}
    audio_format = given["format"]
    fields["input_audio_format"] = TYPE_NAMES[audio_format["type"]]
    return {
        "id": session["id"],
        "object": f"realtime.{prefix}",
        "expires_at": session["expires_at"],
        "modalities": ["text"],
        **fields,
        "include": session["include"],
    }


def _old_names(text: str | None) -> str | None:
    """Return a message or the path of a field, with the names of the old generation."""
    if text is None:
        return None
    text = text.replace(f"{INPUT}.format.type", "session.input_audio_format")
    for old, new in FIELDS.items():
        text = text.replace(f"{INPUT}.{new}", f"session.{old}")
    for name, old in TYPE_NAMES.items():
        text = re.sub(rf"{re.escape(name)}\b", old, text)
    return text
