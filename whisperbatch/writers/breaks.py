"""Where a line may end, and what an end there costs.

In languages with spaces, a line may end at a space. In languages without spaces, a line may end
between two characters, except between characters that belong together. A part of the text that no
line break may split is a text unit:

    text    Well, I  don't know.           今日は、いい天気です。
    units   Well,|I|don't|know.            今|日|は、|い|い|天|気|で|す。

The cost of a break says how badly it separates what belongs together. A full line costs 1, so a
break of 0.8 is avoided even if the lines become uneven:

    0      after a sentence                 Yes. | I know
    0.1    after a clause                   Well, | I know
    0.15   before a conjunction             I know | that he
    0.25   before an article                I took | the train
    0.3    between two words                an old | town
    0.8    inside a phrase                  the | town, Dr. | Jones, 10 | kg, New | York
    1.5    inside a word or number          1,200 | 億円, Thai words

Thai, Lao, Khmer and Burmese have no spaces between words: only a dictionary finds the words. These
languages have spaces between phrases, and lines end there. Only a phrase that is longer than a cue
is divided at another place, between two tokens of Whisper if possible.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from whisperbatch.text.abbreviations import before_number, never_last
from whisperbatch.text.function_words import leaning, opening, trailing
from whisperbatch.text.languages import UNSPACED
from whisperbatch.text.sentences import (
    CLAUSE_ENDS,
    CLOSING,
    FULL_STOP,
    OPENING,
    SENTENCE_ENDS,
    Ending,
    begins_with_closing_mark,
    ending,
    last_mark,
)
from whisperbatch.writers.formatting import columns, is_visible

AFTER_SENTENCE: Final = 0.0
AFTER_CLAUSE: Final = 0.1
BEFORE_PHRASE: Final = 0.15  # a conjunction or a preposition follows
AFTER_PARTICLE: Final = 0.2  # Japanese, Chinese: a phrase ends
BEFORE_ARTICLE: Final = 0.25
AFTER_WORD: Final = 0.3
AFTER_SHORT_WORD: Final = 0.35  # in languages without a list of function words
BETWEEN_NOUNS: Final = 0.4  # German: two nouns, or a name
INSIDE_NAME: Final = 0.6
INSIDE_PHRASE: Final = 0.8
"""A break that costs as much separates what belongs together: `is_bad`."""
INSIDE_COMPOUND: Final = 0.8  # Japanese, Chinese: two characters that may be one word
INSIDE_WORD: Final = 1.0
INSIDE_NUMBER: Final = 1.5  # between a number and its counter
INSIDE_THAI: Final = 2.5  # at a boundary of tokens
NEVER: Final = 3.0  # a mark would begin a line, or a Thai word would be divided

MAX_SHORT_WORD: Final = 3  # characters
DASHES: Final = frozenset("–—")
APOSTROPHES: Final = re.compile("['’]")

_BETWEEN_SPACES: Final = re.compile("(?:\\S|[\u00a0\u2007\u202f])+")  # no-break spaces
_UNSPACED: Final = re.compile("[\u0e00-\u109f\u1780-\u17ff]")  # Thai, Lao, Tibetan, Myanmar, Khmer
_PHRASED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")  # spaces between phrases
_HIRAGANA: Final = re.compile("[\u3040-\u309f]")
_KATAKANA: Final = re.compile("[\u30a0-\u30ff\u31f0-\u31ff\uff66-\uff9f]")
_IDEOGRAPH: Final = re.compile("[\u3005-\u3007\u3400-\u9fff\uf900-\ufaff]")
_TIBETAN: Final = re.compile("[\u0f00-\u0fff]{2}")
_AFTER_SYLLABLE: Final = frozenset("\u0f0b\u0f0d\u0f0e\u0f0f\u0f11\u0f14")  # tsheg, shad

# Japanese: particles end a phrase; prefixes and the starts of particles and endings do not.
_PARTICLES: Final = frozenset("はがをにでとへも")
_PREFIXES: Final = frozenset("おご")
_NEVER_FIRST_KANA: Final = frozenset("はがをにでとへもやのかねよたてまなしれらりるくけせすだばれん")
# Chinese: particles that belong to the word before, and words that belong to the next word
_AFTER_CHINESE: Final = frozenset("的了着著过過吗嗎呢吧们們么麼地得")
_BEFORE_CHINESE: Final = frozenset(
    "在是把被和与與跟对對从從向为為给給让讓很更最不没沒也都就还還又再这這那每各我你他她它其之一二三"
    "四五六七八九十百千两兩几幾第会會能要想可以"
)
_PHRASE_CHINESE: Final = frozenset("但而且因所如虽雖然若或")

# Characters that never begin a line, and characters that never end a line: the Japanese rules of
# JIS X 4051 (kinsoku); vowels and signs of Thai and Lao that are written before or after their
# consonant.
_NEVER_FIRST: Final = (
    SENTENCE_ENDS
    | CLAUSE_ENDS
    | DASHES
    | frozenset(CLOSING)
    | frozenset("ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶー々ゝゞヽヾ・〜～％%")
    | frozenset("\u0e2f\u0e30\u0e32\u0e33\u0e45\u0e46\u0eaf\u0eb0\u0eb2\u0eb3\u0ec6")
)
_NEVER_LAST: Final = frozenset(
    "\u0e40\u0e41\u0e42\u0e43\u0e44\u0ec0\u0ec1\u0ec2\u0ec3\u0ec4$¥￥#＃"
)
_JOINING: Final = frozenset("\u200d\u2060\u1039\u17d2")  # join the characters on both sides
_ZERO_WIDTH_SPACE: Final = "\u200b"
_MARKS: Final = ("Mn", "Mc", "Me", "Cf")  # categories of marks, which belong to their base
_YEAR: Final = re.compile("1[0-9]{3}|20[0-9]{2}")  # no unit follows
_CAPITALISED_NOUNS: Final = ("de", "lb")


@dataclass(frozen=True, slots=True)
class Break:
    """A place in a text where a line may end.

    Attributes:
        text: on one line.
        sentence: index of the first character of the sentence before the place.
        first: index of the first character of the unit before the place.
        stop: index after the last character of this unit.
        following: index of the first character of the next unit.
        language: Whisper's code.
        new_word: whether a word of the segment begins after the place; False if it is not known.
    """

    text: str
    sentence: int
    first: int
    stop: int
    following: int
    language: str
    new_word: bool = False

    @property
    def before(self) -> str:
        """The unit before the place."""
        return self.text[self.first : self.stop]

    @property
    def after(self) -> str:
        """The text from the next unit to the next space."""
        match = _BETWEEN_SPACES.match(self.text, self.following)
        return match[0] if match else ""

    @property
    def cost(self) -> float:
        """What a line break here costs."""
        mark = self._cost_of_marks()
        if mark is not None:
            return mark
        if self.language in UNSPACED:
            return self._cost_without_spaces()
        return self._cost_of_words()

    def _cost_of_marks(self) -> float | None:
        """Return the cost of a break at a mark; None if the words decide."""
        before, after = self.before, self.after
        if begins_with_closing_mark(self.text[self.stop :]) or before in OPENING:
            return NEVER
        mark = last_mark(before)
        if mark in SENTENCE_ENDS:
            return self._cost_of_stop(mark)
        if mark in CLAUSE_ENDS:
            return AFTER_CLAUSE
        if before[-1] in DASHES or before == "-":
            return NEVER if self.first == self.sentence else AFTER_CLAUSE
        return INSIDE_NAME if after in DASHES or after == "-" else None

    def _cost_of_stop(self, mark: str) -> float | None:
        """Return the cost of a break after a mark that can end a sentence."""
        found = ending(self.text[self.sentence : self.stop], self.text[self.stop :], self.language)
        if found is Ending.SENTENCE:
            return AFTER_SENTENCE
        word = self._word()
        if mark != FULL_STOP:
            return AFTER_CLAUSE
        if word in never_last(self.language) or word in before_number(self.language):
            return INSIDE_PHRASE
        if found is Ending.IF_PAUSE:
            return INSIDE_PHRASE if len(word) == 1 or word.isdigit() else AFTER_CLAUSE
        return None

    def _word(self) -> str:
        """Return the last word before the place, in lower case and without marks."""
        word = self.before.strip(OPENING + CLOSING + "".join(SENTENCE_ENDS | CLAUSE_ENDS))
        return APOSTROPHES.split(word.casefold())[-1]

    def _cost_of_words(self) -> float:
        """Return the cost of a break between two words of a language with spaces."""
        language, word = self.language, self._word()
        bare = self.after.strip(OPENING + CLOSING + "".join(SENTENCE_ENDS | CLAUSE_ENDS))
        following = APOSTROPHES.split(bare.casefold())
        leans = leaning(language)
        if word in leans or word in opening(language) or following[0] in trailing(language):
            return INSIDE_PHRASE
        if cost := self._cost_of_numbers(word, bare):
            return cost
        if cost := self._cost_of_names(bare):
            return cost
        if following[0] in opening(language):
            return BEFORE_PHRASE
        if following[0] in leans:
            return BEFORE_ARTICLE
        return AFTER_SHORT_WORD if not leans and len(word) <= MAX_SHORT_WORD else AFTER_WORD

    def _cost_of_numbers(self, word: str, following: str) -> float:
        """Return the cost of a break before a unit, or inside a number; 0 without a number."""
        is_number = word[-1:].isdigit() and not _YEAR.fullmatch(word)
        if following[:1].isdigit():
            return INSIDE_PHRASE if is_number else INSIDE_NAME
        if not is_number or following in opening(self.language):
            return 0.0
        return INSIDE_NAME if following[:1].isupper() else INSIDE_PHRASE

    def _cost_of_names(self, following: str) -> float:
        """Return the cost of a break between two capitalised words; 0 if they are none."""
        bare = self.before.lstrip(OPENING)
        if not (bare[:1].isupper() and following[:1].isupper()) or bare.isupper():
            return 0.0
        if self.first == self.sentence:
            return BETWEEN_NOUNS  # each sentence begins with a capital
        return BETWEEN_NOUNS if self.language in _CAPITALISED_NOUNS else INSIDE_NAME

    def _cost_without_spaces(self) -> float:
        """Return the cost of a break in a language without spaces."""
        before, after = self.text[self.stop - 1], self.text[self.following]
        if self.stop < self.following or before == _ZERO_WIDTH_SPACE:
            return AFTER_CLAUSE
        if before in _AFTER_SYLLABLE:
            return AFTER_WORD
        if before.isdigit() and not after.isdigit():
            return INSIDE_NUMBER
        if _PHRASED.match(before) or _PHRASED.match(after):
            return INSIDE_THAI if self.new_word else NEVER
        if self.language == "ja":
            return _japanese_cost(before, after, new_word=self.new_word)
        return _chinese_cost(before, after, new_word=self.new_word)


def is_bad(place: Break) -> bool:
    """Return whether a break separates what belongs together."""
    return place.cost >= INSIDE_PHRASE


def _japanese_cost(before: str, after: str, *, new_word: bool) -> float:
    """Return the cost of a break between two characters; most phrases end in hiragana.

    No particle or ending begins a line: it belongs to the word before.
    """
    is_hiragana = _HIRAGANA.match(before) is not None
    if _HIRAGANA.match(after):
        if not is_hiragana or after in _NEVER_FIRST_KANA:
            return INSIDE_WORD
        costs = (INSIDE_NAME, INSIDE_WORD)
        if before in _PARTICLES:
            costs = (BETWEEN_NOUNS, INSIDE_COMPOUND)
        return costs[0] if new_word else costs[1]
    if is_hiragana:
        if before in _PREFIXES:
            return INSIDE_WORD
        usual = AFTER_PARTICLE if new_word or before in _PARTICLES else AFTER_WORD
        return BETWEEN_NOUNS if before == "の" else usual
    if any(kind.match(before) and kind.match(after) for kind in (_IDEOGRAPH, _KATAKANA)):
        return INSIDE_COMPOUND if new_word else INSIDE_WORD
    return INSIDE_NAME


def _chinese_cost(before: str, after: str, *, new_word: bool) -> float:
    """Return the cost of a break between two characters of Chinese or Tibetan text."""
    if after in _AFTER_CHINESE:
        return INSIDE_WORD
    if before in _AFTER_CHINESE or after in _PHRASE_CHINESE:
        return AFTER_PARTICLE
    if before in _BEFORE_CHINESE:
        return INSIDE_COMPOUND
    return AFTER_WORD if new_word else INSIDE_NAME


def visible_parts(text: str, *, unspaced: bool) -> list[tuple[int, int]]:
    """Return the parts of a text that no line break may split, as (first, stop).

    An invisible part is joined to the part before it; at the start of the text, to the next part.
    """
    parts: list[tuple[int, int]] = []
    for first, stop in _parts(text, unspaced=unspaced):
        if parts and not (is_visible(text[first:stop]) and is_visible(text[slice(*parts[-1])])):
            parts[-1] = parts[-1][0], stop
        else:
            parts.append((first, stop))
    return parts


def _parts(text: str, *, unspaced: bool) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text, visible or not, as (first, stop)."""
    for match in _BETWEEN_SPACES.finditer(text):
        first, stop = match.span()
        if unspaced:
            for index in range(first + 1, stop):
                if _may_break(text[index - 1], text[index]):
                    yield first, index
                    first = index
        yield first, stop


def _may_break(before: str, after: str) -> bool:
    """Return whether a line may end between two characters of a language without spaces."""
    if before == _ZERO_WIDTH_SPACE:
        return True
    if (
        after in _NEVER_FIRST
        or before in _NEVER_LAST
        or before in _JOINING
        or unicodedata.category(after) in (*_MARKS, "Pe", "Pf", "Sk")
        or unicodedata.category(before) in ("Ps", "Pi")
    ):
        return False
    if _TIBETAN.match(before + after):
        return before in _AFTER_SYLLABLE
    return _is_unspaced(before) or _is_unspaced(after)


def _is_unspaced(character: str) -> bool:
    """Return whether a character's script is written without spaces.

    False for Latin letters and digits, which also occur in text without spaces.
    """
    wide = 2
    return columns(character) == wide or _UNSPACED.match(character) is not None
