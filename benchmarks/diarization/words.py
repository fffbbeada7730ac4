"""How many words get the right speaker, with the words of one transcript for all systems.

    truth.turns     A [=========]       B [=======]
    words             a a a a a           b b b b       the speaker of the turns that cover a word
    system's turns  X [=======]  Y [==============]
    words             x x x x y           y y y y       1 of 9 words is wrong

The speakers of a system are assigned to the true speakers so that the fewest words are wrong. The
word diarization error rate (Shafey, Soltau and Shafran 2019, https://arxiv.org/abs/1907.05337) is
the share of wrong words. It needs no true text, unlike cpWER (`measures.word_error_rate`).

Whisper base transcribes each conversation once. A result is kept in .cache/diarization.
"""

import json
from collections.abc import Sequence

import numpy as np

import whisperbatch as wb
from benchmarks.diarization import measures, systems
from benchmarks.diarization.conversations import Conversation, Spoken, Turn
from whisperbatch.diarization.tracks import SpeakerTracks

NO_SPEAKER = ""  # the speaker of all words where a system finds no speech


def transcribed(conversation: Conversation) -> list[Spoken]:
    """Return the words of a conversation, without speakers."""
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
        found = [
            (word.start, word.end, word.word)
            for segment in transcript.segments
            for word in segment.words or ()
        ]
        kept.write_text(json.dumps(found), encoding="utf-8")
    return [
        Spoken(start, end, NO_SPEAKER, text)
        for start, end, text in json.loads(kept.read_text("utf-8"))
    ]


def spoken_by(words: Sequence[Spoken], turns: Sequence[Turn]) -> list[Spoken]:
    """Return the words with the speakers that whisperbatch gives to single words."""
    if not words or not turns:
        return list(words)
    tracks = SpeakerTracks([wb.Turn(*turn, confidence=1.0) for turn in turns])
    best = tracks.evidence([(word.start, word.end) for word in words]).best
    return [
        word._replace(speaker=tracks.names[number])
        for word, number in zip(words, best, strict=True)
    ]


def wrong_speakers(truth: Sequence[Spoken], found: Sequence[Spoken]) -> int:
    """Return how many words have a wrong speaker, with the best assignment of speakers."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - only for this measure

    names = sorted({word.speaker for word in truth})
    others = sorted({word.speaker for word in found})
    together = np.zeros((len(names), len(others)), np.int64)
    for word, other in zip(truth, found, strict=True):
        together[names.index(word.speaker), others.index(other.speaker)] += 1
    rows, columns = linear_sum_assignment(together, maximize=True)
    return len(truth) - int(together[rows, columns].sum())


def measure(conversation: Conversation, turns: Sequence[Turn]) -> tuple[int, int, float | None]:
    """Return the words with a wrong speaker, all words, and the cpWER if the text is known.

    Args:
        conversation: has the true turns and texts.
        turns: of a system; without overlap, if it has such turns.
    """
    words = transcribed(conversation)
    found = spoken_by(words, turns)
    wrong = wrong_speakers(spoken_by(words, conversation.turns), found)
    if not conversation.has_text:
        return wrong, len(words), None
    return wrong, len(words), measures.word_error_rate(conversation.utterances, found)
