"""A recording of speech with its exact text, and the comparison of a transcript with this text.

clip.opus is 9.3 s from the LibriVox recording of "Sense and Sensibility" (Jane Austen, chapter 1),
which is in the public domain like all recordings of LibriVox. It consists of the test recordings
sense_and_sensibility_01_austen_64kb-0920 and -0930 of CMU PocketSphinx (Debian's package
pocketsphinx-testdata), which follow each other in the book, as Opus at 20 kbit/s.
"""

import re
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final

CLIP: Final = Path(__file__).with_name("clip.opus")
SECONDS: Final = 9.34  # duration of the clip
TEXT: Final = (
    "Had he married a more amiable woman, he might have been made still more respectable than he "
    "was. He might even have been made amiable himself."
)
MAX_WORD_ERRORS: Final = 0.35
"""A transcript with a larger fraction of wrong words is wrong.

tiny.en and base, the smallest models, make no error in the clip on any engine, in any compute type.
Text of a broken engine (random tokens, loops, a stock phrase) shares hardly a word with the clip.
"""


def word_errors(text: str) -> float:
    """Return the fraction of words that differ from the clip's text: 0 is the same text.

    Args:
        text: a transcript of the clip.
    """
    spoken, written = _words(TEXT), _words(text)
    matcher = SequenceMatcher(None, spoken, written, autojunk=False)
    equal = sum(block.size for block in matcher.get_matching_blocks())
    return (max(len(spoken), len(written)) - equal) / len(spoken)


def _words(text: str) -> list[str]:
    """Return the words in lower case, without punctuation."""
    return re.findall(r"[^\W_]+", text.lower())
