"""The fields `known_speaker_names[]` and `known_speaker_references[]`: the option known_speakers.

known_speaker_names[]=Ann    known_speaker_references[]=data:audio/wav;base64,UklGRi...
"""

from typing import Final

import whisperbatch as wb
from whisperbatch.huggingface import InputsDecoder
from whisperbatch.server.errors import invalid
from whisperbatch.server.requests.values import Values

NAMES: Final = "known_speaker_names"
REFERENCES: Final = "known_speaker_references"
SCHEME: Final = "data:"


def known_speakers(values: Values) -> dict[str, dict[str, bytes]]:
    """Return the option that the two fields set.

    Args:
        values: the fields of a request.

    Returns:
        The value of `known_speakers` by this name; empty if the fields are not given.

    Raises:
        ApiError: there are not as many names as references, a name is repeated, or a reference is
            not a data: URL.
    """
    names, references = values.texts(NAMES), values.texts(REFERENCES)
    if len(names) != len(references):
        field = NAMES if len(names) < len(references) else REFERENCES
        raise invalid(
            f"{field}: there are {len(names)} names and {len(references)} references; send one "
            "reference for each name",
            field,
        )
    if len(set(names)) < len(names):
        raise invalid(f"{NAMES} has a name twice; give every speaker another name", NAMES)
    voices = {
        name: _decoded(number, reference)
        for number, (name, reference) in enumerate(zip(names, references, strict=True))
    }
    return {"known_speakers": voices} if voices else {}


def _decoded(number: int, reference: str) -> bytes:
    """Return the media file in a data: URL."""
    wrong = invalid(
        f"{REFERENCES}[{number}] is not a data: URL with base64, such as "
        "data:audio/wav;base64,UklGRi...; other URLs are not opened",
        REFERENCES,
    )
    if reference[: len(SCHEME)].lower() != SCHEME:
        raise wrong
    decoded = bytearray()
    decoder = InputsDecoder(decoded.extend)
    try:
        decoder.feed(reference.encode("ascii", "replace"))
        decoder.finish()
    except wb.OptionError as error:
        raise wrong from error
    if not decoded:
        raise wrong
    return bytes(decoded)
