"""Whether an Ogg file breaks off within a page (RFC 3533).

Many programs that write live streams never mark a last page, so a missing mark proves nothing. But
no program leaves half a page: where a page breaks off, the rest of the file is missing.
"""

from typing import Final

CAPTURE: Final = b"OggS\0"  # the start of a page, with the version of the format
HEADER: Final = 27  # bytes before the table of segments
FIRST: Final = 2  # flag of the first page of a stream
LAST: Final = 4  # flag of the last page of a stream


def ends_within_page(tail: bytes) -> bool:
    """Return whether the file breaks off within a page.

    Args:
        tail: the end of the file; at least as long as the longest page, or the whole file.
    """
    start = tail.rfind(CAPTURE)
    if start < 0:
        return False
    size = _page_size(tail[start:])
    if size is None or start + size > len(tail):
        return True
    # bytes after a complete page are the start of the next page, or no Ogg at all
    rest, is_last = tail[start + size :], bool(tail[start + 5] & LAST)
    return bool(rest) and not is_last and CAPTURE.startswith(rest[: len(CAPTURE)])


def begins_stream(pages: bytes) -> bool:
    """Return whether one of the pages is the first of a stream, after which its times restart."""
    start = pages.find(CAPTURE)
    while 0 <= start < len(pages) - len(CAPTURE):
        if pages[start + 5] & FIRST:
            return True
        start = pages.find(CAPTURE, start + 1)
    return False


def _page_size(page: bytes) -> int | None:
    """Return the size of a page in bytes; None if its header is incomplete."""
    if len(page) < HEADER or len(page) < HEADER + page[26]:
        return None
    return HEADER + page[26] + sum(page[HEADER : HEADER + page[26]])
