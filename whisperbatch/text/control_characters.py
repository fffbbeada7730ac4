"""Characters that terminals, editors and players obey and do not show.

A file name or a text may contain an escape sequence, which moves the cursor of a terminal or sets
its title, or a bidirectional control, which reorders the text around it (CVE-2021-42574).
"""

import re
from typing import Final

CONTROLS: Final = "\0-\x1f\x7f-\x9f"
"""All characters of the Unicode category Cc, as a range for regular expressions."""

BIDIRECTIONAL_CONTROLS: Final = "\u202a-\u202e\u2066-\u2069"
"""Embeddings, overrides and isolates, which stay in force until another control or the end of the
paragraph. The marks U+200E, U+200F and U+061C, which Arabic and Hebrew need, have no such effect.
"""

LINE_SEPARATORS: Final = "\u2028\u2029"

_UNSAFE: Final = re.compile(f"[{CONTROLS}{BIDIRECTIONAL_CONTROLS}{LINE_SEPARATORS}]")


def escape_controls(text: str) -> str:
    r"""Return a text on one line that a terminal shows unchanged: ESC becomes "\x1b".

    Surrogates stay. The streams of the command line escape them.
    """
    return _UNSAFE.sub(lambda match: ascii(match[0])[1:-1], text)


def escape_controls_in_json(text: str) -> str:
    r"""Return JSON in which control characters are escaped as "\u001b"; its value is the same.

    Args:
        text: JSON without line breaks between the values, or with line feeds only.
    """
    return _UNSAFE.sub(
        lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text
    )
