from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.fakes import Call, FakeEngine, multilingual_tokenizer
from tests.unit.fakes import tokenizer as english_tokenizer
from tests.unit.synthetic_speech import decode_rows, shared_model
from tests.unit.synthetic_speech import segments as segments_of
from whisperbatch import EngineError, Options, Segment
from whisperbatch.decoding.audit import compression_ratio
from whisperbatch.decoding.chunk_decoder import ChunkDecoder
from whisperbatch.decoding.prompts import GIVEN_TOKENS, WhisperTokenizer
from whisperbatch.features import feature_extractor
from whisperbatch.language.detection import score_rows
from whisperbatch.options.keywords import resolve
from whisperbatch.protocols import Hypothesis
from whisperbatch.recording import Decision, RecordingState, Row
from whisperbatch.types import Chunk, SpeechSpan

EXTRACTOR = feature_extractor("whisper", 80)


def row(recording: int = 0, index: int = 0, length: int = 160_000) -> Row:
    """A row of speech that starts at 100 s * index."""
    span = (SpeechSpan(1_600_000 * index, 1_600_000 * index + length),)
    chunk = Chunk(recording, index, span, span, np.zeros(length, np.float32))
    features = np.full((80, length // 160), float(index), np.float32)
    return Row(chunk, features, -1.0, RecordingState(recording))


def scripted_engine(
    *texts: Sequence[str | float], multilingual: bool = True, **keywords: Any
) -> FakeEngine:
    """Return an engine with a given text for each row; numbers are timestamps in seconds."""
    tokenizer = multilingual_tokenizer() if multilingual else english_tokenizer()
    first = WhisperTokenizer(tokenizer, multilingual=multilingual).no_timestamps + 1

    def scripted(call: Call) -> Hypothesis:
        tokens: list[int] = []
        for part in texts[call.index]:
            if isinstance(part, str):
                tokens += tokenizer.encode(part, add_special_tokens=False).ids
            else:
                tokens.append(first + round(part / 0.02))
        return Hypothesis(tuple(tokens), -0.25 * (call.index + 1), 0.125 * call.index)

    return FakeEngine(decode=scripted, multilingual=multilingual, **keywords)


def decode(engine: FakeEngine, rows: list[Row], **keywords: Any) -> list[tuple[Segment, ...]]:
    """Decode rows in the given language, without VAD, so that coverage is not checked."""
    options = resolve(Options(language="en", vad=False), **keywords)
    labelled = [replace(row, language=options.language) for row in rows]
    results = decode_rows(engine, EXTRACTOR, options, labelled)
    shown = {name: keywords[name] for name in keywords if "timestamps" in name}
    return [segments_of(result, **shown) for result in results]


def times(segments: Sequence[Segment]) -> list[tuple[str, float, float]]:
    return [(s.text, round(s.start, 3), round(s.end, 3)) for s in segments]


def test_segments_are_in_the_order_and_at_the_times_of_their_rows() -> None:
    engine = scripted_engine([" One two. Three four."], [], [" Five."])
    results = decode(engine, [row(index=0), row(index=3), row(index=7)])
    assert [times(segments) for segments in results] == [
        [("One two.", 0.0, 3.333), ("Three four.", 5.0, 8.333)],  # full stops take no time
        [],
        [("Five.", 700.0, 705.0)],
    ]
    assert [segment.id for segments in results for segment in segments] == [0, 1, 0]


def test_segments_have_the_scores_of_their_row() -> None:
    [[first, second], [third]] = decode(
        scripted_engine([" One two. Three four."], [" Five."]), [row(), row()]
    )
    assert (first.avg_logprob, first.no_speech_prob) == (-0.25, 0.0)
    assert (third.avg_logprob, third.no_speech_prob) == (-0.5, 0.125)
    assert first.compression_ratio == second.compression_ratio
    assert first.compression_ratio == compression_ratio(" One two. Three four.")
    assert first.words is None


@pytest.mark.parametrize(
    ("after", "texts", "prefixes"),
    [
        (" Three four.", ["One two. Three four."], ["One two."]),
        (" la" * 60, ["Five."], ["One two.", ""]),  # fails the audit: without the known text
    ],
)
def test_the_known_text_of_the_first_speech_is_not_searched_for(
    after: str, texts: list[str], prefixes: list[str]
) -> None:
    given: list[str] = []

    def decoded(call: Call) -> Hypothesis:
        prompt = list(call.prompt)
        given.append(str(tokenizer.decode(prompt[prompt.index(vocabulary.no_timestamps) + 1 :])))
        text = after if given[-1] else " Five."
        return Hypothesis(tuple(tokenizer.encode(text, add_special_tokens=False).ids), -0.25, 0.0)

    engine = FakeEngine(decode=decoded)
    tokenizer = engine.tokenizer
    vocabulary = WhisperTokenizer(tokenizer, multilingual=True)
    options = Options(language="en", vad=False)
    decoder = ChunkDecoder(shared_model(engine, options), EXTRACTOR, options)
    result = decoder(replace(row(), language="en"), vocabulary.encode("One two."))
    assert [timed.text for text in result.texts for timed in text.timed_texts] == texts
    assert [prefix.strip() for prefix in given] == prefixes


def test_known_text_that_is_too_long_is_not_used() -> None:
    engine = scripted_engine([" Five."])
    vocabulary = WhisperTokenizer(engine.tokenizer, multilingual=True)
    options = Options(language="en", vad=False)
    decoder = ChunkDecoder(shared_model(engine, options), EXTRACTOR, options)
    known = vocabulary.encode("one " * 300)
    assert len(known) > GIVEN_TOKENS
    [text] = decoder(replace(row(), language="en"), known).texts
    assert [timed.text for timed in text.timed_texts] == ["Five."]
    assert len(engine.prompts[0]) == 4


def test_rows_are_padded_with_their_own_silence() -> None:
    engine = scripted_engine([], [])
    decode(engine, [row(index=2, length=1600), row(index=4, length=1440)])
    assert engine.features.shape == (2, 80, 1000)  # at least 5 s of silence
    assert (engine.features[0, :, :10] == 2).all()
    assert (engine.features[0, :, 10:] == -1).all()
    assert (engine.features[1, :, 9:] == -1).all()


def test_padding_does_not_change_the_rows() -> None:
    original = row(index=2)
    features = original.prepare(np.float32, 3000).features
    assert features is not None
    features[:] = 7
    assert (original.features == 2).all()


@pytest.mark.parametrize("timestamps", ["alignment", "tokens"])
def test_prompts(timestamps: str) -> None:
    engine = scripted_engine([])
    decode(engine, [row()], language="fr", task="translate", timestamps=timestamps)
    names = [engine.tokenizer.id_to_token(token) for token in engine.prompts[0]]
    expected = ["<|startoftranscript|>", "<|fr|>", "<|translate|>", "<|notimestamps|>"]
    assert names == expected[: None if timestamps == "alignment" else 3]


def test_english_only_prompts() -> None:
    engine = scripted_engine([], multilingual=False)
    decode(engine, [row()])
    names = [engine.tokenizer.id_to_token(token) for token in engine.prompts[0]]
    assert names == ["<|startoftranscript|>", "<|notimestamps|>"]


def test_alignment_starts_without_the_no_timestamps_token() -> None:
    engine = scripted_engine([" One."], [])
    decode(engine, [row(length=1600), row(length=3200)])
    [texts] = engine.aligned
    assert [len(text.start) for text in texts] == [3, 3]
    assert [len(text.tokens) for text in texts] == [2, 0]
    assert [text.frames for text in texts] == [10, 20]


def test_words_have_the_text_and_times_of_their_segment() -> None:
    engine = scripted_engine([" One two. Three, four."])
    [segments] = decode(engine, [row(index=1)], word_timestamps=True)
    for segment in segments:
        assert segment.words is not None
        assert "".join(word.word for word in segment.words).strip() == segment.text
        assert segment.words[0].start == segment.start
        assert segment.words[-1].end == segment.end
        assert {word.probability for word in segment.words} == {0.5}


def test_timestamp_tokens_give_the_times_of_segments() -> None:
    engine = scripted_engine([0.0, " One.", 1.5, 2.0, " Two", 3.0])
    [segments] = decode(engine, [row(index=1)], timestamps="tokens")
    assert times(segments) == [("One.", 100.0, 101.5), ("Two", 102.0, 103.0)]


def test_words_lie_within_the_timestamps_of_their_segment() -> None:
    engine = scripted_engine([0.0, " One.", 5.0, 5.0, " Two.", 10.0])
    [segments] = decode(engine, [row(index=1)], timestamps="tokens", word_timestamps=True)
    assert [[w.word for w in segment.words or ()] for segment in segments] == [[" One."], [" Two."]]
    [[text]] = engine.aligned
    assert len(text.tokens) == 4  # no timestamp tokens
    for segment in segments:
        assert segment.words is not None
        assert segment.start <= segment.words[0].start
        assert segment.words[-1].end <= segment.end


def test_a_translation_is_in_english() -> None:
    [[segment]] = decode(scripted_engine([" One."]), [row()], language="fr", task="translate")
    assert segment.language == "en"


def test_each_row_is_decoded_in_its_own_language() -> None:
    engine = scripted_engine([" One."], [" Deux."], [" Tre."])
    italian = Decision("it", 0.8)
    rows = [
        replace(row(0), language="en"),
        replace(row(1), language="fr", decision=italian),
        replace(row(1, index=1), language="it", decision=italian),
    ]
    results = decode_rows(engine, EXTRACTOR, Options(vad=False), rows)
    assert [result.texts[0].language for result in results] == ["en", "fr", "it"]
    assert [result.decision for result in results] == [None, italian, italian]
    languages_of_prompts = [engine.tokenizer.id_to_token(prompt[1]) for prompt in engine.prompts]
    assert languages_of_prompts == ["<|en|>", "<|fr|>", "<|it|>"]
    assert engine.detections == 0


def decoder_of(engine: FakeEngine, options: Options) -> ChunkDecoder:
    return ChunkDecoder(shared_model(engine, options), EXTRACTOR, options)


def test_a_row_without_a_language_is_refused() -> None:
    with pytest.raises(ValueError, match="rows with their language"):
        decoder_of(scripted_engine([" One."]), Options(batch_size=8))(row())


def test_rows_that_were_scored_are_not_encoded_again() -> None:
    engine = FakeEngine()
    decoder = decoder_of(engine, Options(vad=False, batch_size=8))
    first, second = (replace(row(index=index), language="en") for index in (2, 4))
    [scored] = score_rows(shared_model(engine), [first])
    assert engine.batch_sizes["encode"] == [1]
    decoder(scored)
    assert engine.batch_sizes["encode"] == [1]
    decoder(second)
    assert engine.batch_sizes["encode"] == [1, 1]
    assert [round(call.row.level, 2) for call in engine.calls] == [1.0, 2.33]


@pytest.mark.parametrize("step", ["encode", "decode"])
def test_after_a_failure_no_other_row_waits_for_the_text_of_the_row(step: str) -> None:
    engine = scripted_engine([" One."], failing={step: {0}})
    options = Options(language="en", vad=False, condition_on_previous_text=True, batch_size=8)
    decoder = decoder_of(engine, options)
    first = replace(row(), language="en")
    second = replace(row(index=1), language="en", recording=first.recording)
    with pytest.raises(EngineError, match=f"{step} failed"):
        decoder(first)
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(decoder, second).result(5)
    assert [segment.text for segment in segments_of(result)] == ["One."]


def test_repetition_has_a_high_compression_ratio() -> None:
    assert compression_ratio("Thank you. " * 20) > 2.4
    assert compression_ratio("Please enter your number.") < 1.1
    assert compression_ratio("") == 0.0
