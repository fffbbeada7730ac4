"""The messages of the protocol: client events as they arrive, and server events with their ids.

client   {"type": "input_audio_buffer.append", "audio": "UklG..."}
server   {"type": "error", "event_id": "event_...", "error": {..., "event_id": of the client}}
"""

import base64
import binascii
import json
import uuid
from collections.abc import Mapping
from typing import Any, Final

from whisperbatch.server.errors import ApiError, invalid

MAX_AUDIO: Final = 15 * 2**20  # characters of base64 in one event
MAX_ID: Final = 512  # characters of a client's id that the server repeats
CONTENT: Final = 0  # index of the audio in an item

UPDATE: Final = "session.update"
APPEND: Final = "input_audio_buffer.append"
COMMIT: Final = "input_audio_buffer.commit"
CLEAR: Final = "input_audio_buffer.clear"
KNOWN: Final = (UPDATE, APPEND, COMMIT, CLEAR)

UNSUPPORTED: Final = (
    *("response.create", "response.cancel", "output_audio_buffer.clear"),
    *("conversation.item.create", "conversation.item.retrieve"),
    *("conversation.item.delete", "conversation.item.truncate"),
)
"""Events of OpenAI's API that a session without answers does not have."""

Event = dict[str, Any]


def new_id(kind: str) -> str:
    """Return a new identifier, such as "item_...", of the length that OpenAI's have."""
    return f"{kind}_{uuid.uuid4().hex[:21]}"


def event(kind: str, **fields: object) -> Event:
    """Return an event of the server."""
    return {"type": kind, "event_id": new_id("event"), **fields}


def error_event(error: ApiError, event_id: str | None = None) -> Event:
    """Return the event of an error.

    Args:
        error: the error.
        event_id: of the client's event that caused the error; None if it had no id.
    """
    return event("error", error={**error.body["error"], "event_id": event_id})


def parse(message: Mapping[str, Any]) -> Event:
    """Return the event in a message of ASGI.

    Raises:
        ApiError: the message is no JSON object.
    """
    text = message.get("text")
    if text is None:
        raise invalid("send events as text, not as bytes", None, "invalid_message")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise invalid(f"the event is no JSON: {error}", None, "invalid_json") from error
    if not isinstance(found, dict):
        raise invalid("an event is a JSON object", None, "invalid_json")
    return found


def check_type(given: Mapping[str, Any]) -> None:
    """Check that an event says what it is.

    Raises:
        ApiError: it has no type.
    """
    if not isinstance(given.get("type"), str):
        raise invalid("an event has the field type, which is a text", "type", "missing")


def id_of(given: Mapping[str, Any]) -> str | None:
    """Return the id that the client has given to an event."""
    event_id = given.get("event_id")
    return event_id[:MAX_ID] if isinstance(event_id, str) else None


def unknown(kind: str) -> ApiError:
    """Return the error for an event that this server does not know, or cannot honour."""
    if kind in UNSUPPORTED:
        message = f"{kind}: this server only transcribes; it has no answers and no conversation"
        return invalid(message, "type", "unsupported_event")
    shown = kind[:100]
    return invalid(f"{shown!r} is no event; send {', '.join(KNOWN)}", "type", "unknown_event")


def audio_of(given: Mapping[str, Any]) -> bytes:
    """Return the audio of an event.

    Raises:
        ApiError: the audio is missing, too large, or not in base64.
    """
    audio = given.get("audio")
    if not isinstance(audio, str):
        raise invalid("audio must be a text in base64", "audio", "missing")
    if len(audio) > MAX_AUDIO:
        raise invalid(
            f"an event may have {MAX_AUDIO // 2**20} MiB of audio in base64; send several events",
            "audio",
            "audio_too_large",
        )
    try:
        return base64.b64decode(audio, validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid(f"audio is no base64: {error}", "audio", "invalid_audio") from error


def item_of(item_id: str) -> Event:
    """Return the item of a turn in the conversation."""
    return {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_audio", "transcript": None}],
    }
