"""Calls of PyAV that differ between its versions: 14.2 to 19 work."""

from collections.abc import Mapping
from typing import Any, Final

import av
from av.container import InputContainer

IGNORED: Final = "metadata_errors"


def open_ignoring_metadata(file: object, options: Mapping[str, str]) -> InputContainer:
    """Open a media file, whatever the encoding of its titles and other metadata.

    Before version 19, PyAV raises UnicodeDecodeError for metadata that are not UTF-8, unless it is
    told to ignore such bytes. Version 19 has no such parameter: it never raises, and the metadata
    may contain surrogates (U+DC80 to U+DCFF).

    Args:
        file: a URL or a file object with `read`.
        options: options of FFmpeg for the container.
    """
    open_container: Any = av.open  # the types of each version know its own parameters only
    arguments = {"mode": "r", "container_options": dict(options)}
    try:
        container: InputContainer = open_container(file, **arguments, **{IGNORED: "ignore"})
    except TypeError as error:  # raised before the file is read
        if IGNORED not in str(error):
            raise
        container = open_container(file, **arguments)
    return container
