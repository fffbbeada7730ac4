from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.fakes import FakeEncoded, FakeEngine
from whisperbatch import EngineError, Options, Segment
from whisperbatch.decoding.batch_decoder import BatchDecoder
from whisperbatch.decoding.decoded_row import compression_ratio
from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.features import feature_extractor
from whisperbatch.language.decisions import LanguageDecisions
from whisperbatch.language.voting import Decision
from whisperbatch.options import DecodeOptions
from whisperbatch.options.keywords import resolve
from whisperbatch.protocols import Alignment, Encoded, Sampling
from whisperbatch.rows import Row, padded
from whisperbatch.types import Chunk, Hypothesis, SpeechSpan

EXTRACTOR = feature_extractor("whisper", 80)


def row(recording: int = 0, index: int = 0, length: int = 160_000) -> Row:
    """Speech from 100 s * index on."""
    span = (SpeechSpan(1_600_000 * index, 1_600_000 * index + length),)
    chunk = Chunk(recording, index, span, span, np.zeros(length, np.float32))
    return Row(chunk, np.full((80, length // 160), float(index), np.float32), -1.0)


class Scripted(FakeEngine):
    """Says what it is told, a text for each row; numbers in it are timestamps."""

    def __init__(self, *texts: Sequence[str | float], multilingual: bool = True) -> None:
        super().__init__(multilingual=multilingual)
        first = WhisperTokenizer(self.tokenizer, multilingual=multilingual).no_timestamps + 1
        self.hypotheses = [
            Hypothesis(
                tuple(
                    token
                    for part in text
                    for token in (
                        self.tokenizer.encode(part, add_special_tokens=False).ids
                        if isinstance(part, str)
                        else [first + round(part / 0.02)]
                    )
                ),
                -0.25 * (number + 1),
                0.125 * number,
            )
            for number, text in enumerate(texts)
        ]
        self.heard: list[dict[str, float]] = []
        self.features: npt.NDArray[Any] = np.zeros(0)
        self.aligned: list[tuple[list[list[int]], list[list[int]], list[int]]] = []

    def encode(self, features: npt.NDArray[np.float32]) -> FakeEncoded:
        self.features = features
        return super().encode(features)

    def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
        self.detections += 1
        return self.heard

    def generate(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        options: DecodeOptions,
        sampling: Sequence[Sampling] | None = None,
    ) -> list[Hypothesis]:
        self.prompts = [list(prompt) for prompt in prompts]
        return self.hypotheses[: encoded.rows]

    def align(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        tokens: Sequence[Sequence[int]],
        frames: Sequence[int],
    ) -> list[Alignment]:
        self.aligned.append(([*map(list, prompts)], [*map(list, tokens)], [*frames]))
        return super().align(encoded, prompts, tokens, frames)


def decode(
    engine: FakeEngine, rows: list[Row], languages: LanguageDecisions | None = None, **keywords: Any
) -> list[tuple[Segment, ...]]:
    """Without `vad` nobody asks whether the words cover the speech."""
    options = resolve(Options(language="en", vad=False), **keywords)
    decoder = BatchDecoder(engine, EXTRACTOR, options, languages or LanguageDecisions(options))
    return [decoded.segments for decoded in decoder(rows)]


def times(segments: Sequence[Segment]) -> list[tuple[str, float, float]]:
    return [(s.text, round(s.start, 3), round(s.end, 3)) for s in segments]


def test_rows_become_segments_in_order_at_their_places() -> None:
    engine = Scripted([" One two. Three four."], [], [" Five."])
    found = decode(engine, [row(index=0), row(index=3), row(index=7)])
    assert [times(segments) for segments in found] == [
        [("One two.", 0.0, 3.333), ("Three four.", 5.0, 8.333)],  # full stops not counted
        [],
        [("Five.", 700.0, 705.0)],
    ]
    assert [segment.id for segments in found for segment in segments] == [0, 0, 0]


def test_segments_tell_of_their_row() -> None:
    [[first, second], [third]] = decode(
        Scripted([" One two. Three four."], [" Five."]), [row(), row()]
    )
    assert (first.avg_logprob, first.no_speech_prob) == (-0.25, 0.0)
    assert (third.avg_logprob, third.no_speech_prob) == (-0.5, 0.125)
    assert first.compression_ratio == second.compression_ratio
    assert first.compression_ratio == compression_ratio(" One two. Three four.")
    assert first.words is None


def test_rows_are_padded_with_their_own_silence() -> None:
    engine = Scripted([], [])
    decode(engine, [row(index=2, length=1600), row(index=4, length=1440)])
    assert engine.features.shape == (2, 80, 1000)  # 5 s of silence at least
    assert (engine.features[0, :, :10] == 2).all()
    assert (engine.features[0, :, 10:] == -1).all()
    assert (engine.features[1, :, 9:] == -1).all()


def test_window_leaves_rows_as_they_are() -> None:
    given = row(index=2)
    padded([given], 3000)[:] = 7
    assert (given.features == 2).all()


@pytest.mark.parametrize("timestamps", ["alignment", "tokens"])
def test_prompts(timestamps: str) -> None:
    engine = Scripted([])
    decode(engine, [row()], language="fr", task="translate", timestamps=timestamps)
    names = [engine.tokenizer.id_to_token(token) for token in engine.prompts[0]]
    expected = ["<|startoftranscript|>", "<|fr|>", "<|translate|>", "<|notimestamps|>"]
    assert names == expected[: None if timestamps == "alignment" else 3]


def test_english_only_prompts() -> None:
    engine = Scripted([], multilingual=False)
    decode(engine, [row()])
    names = [engine.tokenizer.id_to_token(token) for token in engine.prompts[0]]
    assert names == ["<|startoftranscript|>", "<|notimestamps|>"]


def test_alignment_starts_without_the_no_timestamps_token() -> None:
    engine = Scripted([" One."], [])
    decode(engine, [row(length=1600), row(length=3200)])
    [(starts, tokens, frames)] = engine.aligned
    assert [len(start) for start in starts] == [3, 3]
    assert [len(text) for text in tokens] == [2, 0]
    assert frames == [10, 20]


def test_words_are_those_of_the_segment() -> None:
    engine = Scripted([" One two. Three, four."])
    [segments] = decode(engine, [row(index=1)], word_timestamps=True)
    for segment in segments:
        assert segment.words is not None
        assert "".join(word.word for word in segment.words).strip() == segment.text
        assert segment.words[0].start == segment.start
        assert segment.words[-1].end == segment.end
        assert {word.probability for word in segment.words} == {0.5}


def test_timestamp_tokens_place_segments() -> None:
    engine = Scripted([0.0, " One.", 1.5, 2.0, " Two", 3.0])
    [segments] = decode(engine, [row(index=1)], timestamps="tokens")
    assert times(segments) == [("One.", 100.0, 101.5), ("Two", 102.0, 103.0)]


def test_timestamp_tokens_and_words() -> None:
    engine = Scripted([0.0, " One.", 5.0, 5.0, " Two.", 10.0])
    [segments] = decode(engine, [row(index=1)], timestamps="tokens", word_timestamps=True)
    assert [[w.word for w in segment.words or ()] for segment in segments] == [[" One."], [" Two."]]
    [(_, tokens, _)] = engine.aligned
    assert len(tokens[0]) == 4  # none of a timestamp
    for segment in segments:
        assert segment.words is not None
        assert segment.start <= segment.words[0].start
        assert segment.words[-1].end <= segment.end


def test_a_translation_is_in_english() -> None:
    [[segment]] = decode(Scripted([" One."]), [row()], language="fr", task="translate")
    assert segment.language == "en"


def test_each_recording_is_decoded_in_its_own_language() -> None:
    languages = LanguageDecisions(Options())
    languages.claim(0)
    languages.claim(1)
    engine = Scripted([" One."], [" Deux."], [" Tre."])
    engine.heard = [{"en": 0.5, "it": 0.4}, {"en": 0.2, "it": 0.7}, {"en": 0.7, "it": 0.3}]
    one = row(0, length=320_000 + 160)
    two, three = row(1, length=360_000), row(1, index=1, length=400_000)
    rows = [replace(one, voters=(one,)), replace(two, voters=(two, three)), three]
    decoder = BatchDecoder(engine, EXTRACTOR, Options(vad=False), languages)
    found = decoder(rows)
    assert [decoded.segments[0].language for decoded in found] == ["en", "it", "it"]
    assert engine.detections == 1
    assert languages.decision_for(0) == Decision("en", 0.5)
    decision = languages.decision_for(1)
    assert decision is not None
    assert decision.probability == pytest.approx((22.5 * 0.7 + 25 * 0.3) / 47.5)
    languages_of_prompts = [engine.tokenizer.id_to_token(prompt[1]) for prompt in engine.prompts]
    assert languages_of_prompts == ["<|en|>", "<|it|>", "<|it|>"]


def test_what_is_decided_is_not_detected_again() -> None:
    engine = Scripted([" One."])
    decode(engine, [row()])
    assert engine.detections == 0


@pytest.mark.parametrize("step", ["encode", "detect_language", "generate", "align"])
def test_a_failure_reaches_all_who_wait_for_a_language(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Scripted([" One."])
    engine.heard = [{"en": 1.0}]

    def fail(*_: object) -> None:
        raise EngineError(f"{step} failed")

    monkeypatch.setattr(engine, step, fail)
    languages = LanguageDecisions(Options())
    languages.claim(0)
    only = row()
    with pytest.raises(EngineError, match=f"{step} failed"):
        BatchDecoder(engine, EXTRACTOR, Options(), languages)([replace(only, voters=(only,))])
    if step in ("encode", "detect_language"):
        with pytest.raises(EngineError, match=f"{step} failed"):
            languages.decision_for(0)
    else:
        assert languages.decision_for(0) == Decision("en", 1.0)


def test_repetition_compresses() -> None:
    assert compression_ratio("Thank you. " * 20) > 2.4
    assert compression_ratio("Please enter your number.") < 1.1
    assert compression_ratio("") == 0.0
