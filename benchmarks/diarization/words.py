"""How many words get the right speaker, with the words of one transcript for all systems.

    truth.turns     A [=========]       B [=======]
    words             a a a a a           b b b b       the speaker of the turns that cover a word
    system's turns  X [=======]  Y [==============]
    words             x x x x y           y y y y       1 of 9 words is wrong

The words get the speakers that `wb.transcribe(..., diarize=True)` would give them with the turns of
a system: whole segments, divided where the speaker clearly changes.

The speakers of a system are assigned to the true speakers so that the fewest words are wrong. The
word diarization error rate (Shafey, Soltau and Shafran 2019, https://arxiv.org/abs/1907.05337) is
the share of wrong words. It needs no true text, unlike cpWER (`measures.word_error_rate`). Where
two people speak during at least half of a word, the turns do not tell who said the word: both are
right.

Whisper base transcribes each conversation once. A result is kept in .cache/diarization.
"""

import json
from collections.abc import Sequence

import numpy as np

import whisperbatch as wb
from benchmarks.diarization import measures, systems
from benchmarks.diarization.conversations import Conversation, Spoken, Turn
from whisperbatch.diarization.assignment import SpeakerTracks, assign_speakers
from whisperbatch.types import from_values, to_values

NO_SPEAKER = ""  # the speaker of all words where a system finds no speech
MIN_SHARE = 0.5  # of a word, during which a person must speak to be a right speaker of the word


def transcribed(conversation: Conversation) -> list[wb.Segment]:
    """Return the segments of a conversation, with words, without speakers."""
    kept = systems.cache() / f"{systems.key_of('words', conversation)}.json"
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        transcript = wb.transcribe(
            wb.Audio(conversation.samples, 16_000),
            model="base",
            device="cpu",
            multilingual=True,
            word_timestamps=True,
        )
        kept.write_text(json.dumps(to_values(transcript.segments)), encoding="utf-8")
    return [from_values(wb.Segment, values) for values in json.loads(kept.read_text("utf-8"))]


def spoken_by(
    segments: Sequence[wb.Segment], turns: Sequence[Turn], exclusive: Sequence[Turn] = ()
) -> list[Spoken]:
    """Return the words with their speakers, as in a transcript with `diarize=True`.

    Args:
        segments: with words.
        turns: of a system.
        exclusive: turns of the same speakers without overlap, if the system has any.
    """
    settled = assign_speakers(segments, _certain(turns), exclusive=_certain(exclusive))
    return [
        Spoken(word.start, word.end, word.speaker or NO_SPEAKER, word.word)
        for segment in settled
        for word in segment.words or ()
    ]


def _certain(turns: Sequence[Turn]) -> list[wb.Turn]:
    return [wb.Turn(*turn, confidence=1.0) for turn in turns]


def right_speakers(words: Sequence[Spoken], turns: Sequence[Turn]) -> list[frozenset[str]]:
    """Return the right speakers of each word, given the true turns: two where two people speak."""
    tracks = SpeakerTracks(_certain(turns))
    if not words or not tracks.names:
        return [frozenset({NO_SPEAKER})] * len(words)
    evidence = tracks.evidence([(word.start, word.end) for word in words])
    return [
        frozenset(
            name
            for number, name in enumerate(tracks.names)
            if number == best or shares[number] >= MIN_SHARE
        )
        for best, shares in zip(evidence.best, evidence.shares, strict=True)
    ]


def wrong_speakers(right: Sequence[frozenset[str]], found: Sequence[Spoken]) -> int:
    """Return how many words have a wrong speaker, with the best assignment of speakers.

    Args:
        right: the right speakers of each word.
        found: the words with the speakers of a system.
    """
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - only for this measure

    names = sorted(frozenset().union(*right))
    others = sorted({word.speaker for word in found})
    together = np.zeros((len(names), len(others)), np.int64)
    for speakers, word in zip(right, found, strict=True):
        for name in speakers:
            together[names.index(name), others.index(word.speaker)] += 1
    rows, columns = linear_sum_assignment(together, maximize=True)
    return len(right) - int(together[rows, columns].sum())


def measure(
    conversation: Conversation, turns: Sequence[Turn], exclusive: Sequence[Turn] = ()
) -> tuple[int, int, float | None]:
    """Return the words with a wrong speaker, all words, and the cpWER if the text is known.

    Args:
        conversation: has the true turns and texts.
        turns: of a system.
        exclusive: turns of the same speakers without overlap, if the system has any.
    """
    found = spoken_by(transcribed(conversation), turns, exclusive)
    wrong = wrong_speakers(right_speakers(found, conversation.turns), found)
    if not conversation.has_text:
        return wrong, len(found), None
    return wrong, len(found), measures.word_error_rate(conversation.utterances, found)
