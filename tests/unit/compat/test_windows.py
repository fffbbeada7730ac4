"""The drop-in's methods on encoder windows, on an engine without weights."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.unit.compat.drop_in import load_fake
from tests.unit.fakes import Call, FakeEngine
from whisperbatch import OptionError
from whisperbatch.compat.faster_whisper import (
    BatchedInferencePipeline,
    TranscriptionOptions,
    WhisperModel,
)
from whisperbatch.compat.faster_whisper._windows.prompts import parse_prompt
from whisperbatch.compat.faster_whisper._windows.results import AlignmentResult
from whisperbatch.compat.faster_whisper._windows.timestamps import split_at_timestamps
from whisperbatch.compat.faster_whisper._windows.words import place_words
from whisperbatch.protocols import Alignment, Hypothesis

OPTIONS = TranscriptionOptions(
    beam_size=2,
    best_of=3,
    patience=1,
    length_penalty=1,
    repetition_penalty=1,
    no_repeat_ngram_size=0,
    log_prob_threshold=-1.0,
    no_speech_threshold=0.6,
    compression_ratio_threshold=2.4,
    condition_on_previous_text=True,
    prompt_reset_on_temperature=0.5,
    temperatures=[0.0, 0.4],
    initial_prompt=None,
    prefix=None,
    suppress_blank=True,
    suppress_tokens=[-1],
    without_timestamps=True,
    max_initial_timestamp=1.0,
    word_timestamps=False,
    prepend_punctuations="(",
    append_punctuations=".",
    multilingual=False,
    max_new_tokens=None,
    clip_timestamps="0",
    hallucination_silence_threshold=None,
    hotwords=None,
)


class Tokens:
    """The part of faster-whisper's Tokenizer that the methods use, on the fake vocabulary."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.sot, self.sot_prev = (self.id_of("startoftranscript"), self.id_of("startofprev"))
        self.eot, self.no_timestamps = self.id_of("endoftext"), self.id_of("notimestamps")
        self.timestamp_begin = self.no_timestamps + 1
        self.language, self.task = self.id_of("en"), self.id_of("transcribe")
        self.language_code = "en"

    def id_of(self, name: str) -> Any:
        return self.tokenizer.token_to_id(f"<|{name}|>")

    @property
    def sot_sequence(self) -> list[int]:
        return [self.sot, self.language, self.task]

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: list[int]) -> str:
        return str(self.tokenizer.decode([token for token in tokens if token < self.eot]))

    def split_to_word_tokens(self, tokens: list[int]) -> tuple[list[str], list[list[int]]]:
        return [self.decode([token]) for token in tokens], [[token] for token in tokens]


@pytest.fixture
def tokens(model: WhisperModel) -> Tokens:
    return Tokens(model.hf_tokenizer)


FEATURES = np.zeros((80, 3000), np.float32)


def test_encode_takes_one_window_or_a_batch(model: WhisperModel, engine: FakeEngine) -> None:
    assert model.encode(FEATURES).encoded.rows == 1
    assert model.encode(np.stack([FEATURES] * 2)).encoded.rows == 2
    for wrong in (np.zeros((80, 3002), np.float32), FEATURES[:40], FEATURES[:, :0], FEATURES[0]):
        with pytest.raises(OptionError, match="shape"):
            model.encode(wrong)
    assert engine.batch_sizes["encode"] == [1, 2]


def test_prompts_of_different_form_are_decoded_in_different_calls(
    model: WhisperModel, engine: FakeEngine, tokens: Tokens
) -> None:
    start = [*tokens.sot_sequence, tokens.no_timestamps]
    prefix = tokens.encode(" Sentence")
    prompts = [start, [tokens.sot_prev, *prefix, *start], start, [*start, *prefix]]
    encoded = model.encode(np.stack([FEATURES] * 4))
    results = model.model.generate(encoded, prompts, return_scores=True)
    assert engine.batches == [2, 1, 1]
    texts = [tokens.decode(result.sequences_ids[0]) for result in results]
    assert texts == [" Sentence 0.", " Sentence 2.", " Sentence 1.", " Sentence Sentence 3."]
    length = len(results[0].sequences_ids[0])
    assert results[0].scores == [pytest.approx(-0.1 * (length + 1) / length)]
    assert model.model.generate(encoded, prompts)[0].scores == []


def test_the_search_has_its_parameters(
    model: WhisperModel, engine: FakeEngine, tokens: Tokens
) -> None:
    prompt = [*tokens.sot_sequence, tokens.no_timestamps]
    model.model.generate(
        FEATURES[None],
        [prompt],
        beam_size=3,
        patience=2,
        length_penalty=0.5,
        repetition_penalty=1.1,
        no_repeat_ngram_size=4,
        suppress_blank=False,
        suppress_tokens=[7],
        max_initial_timestamp_index=25,
        max_length=100,
    )
    options = engine.calls[-1].options
    assert (options.beam_size, options.patience, options.length_penalty) == (3, 2, 0.5)
    assert (options.repetition_penalty, options.no_repeat_ngram_size) == (1.1, 4)
    assert (options.suppress_blank, options.suppress_tokens) == (False, (7,))
    assert (options.max_initial_timestamp, options.max_new_tokens) == (0.5, 50)
    model.model.generate(
        FEATURES[None],
        [prompt],
        beam_size=1,
        sampling_topk=0,
        sampling_temperature=0.7,
        num_hypotheses=3,
    )
    sampling = engine.calls[-1].sampling
    assert sampling
    assert (sampling.temperature, sampling.best_of) == (0.7, 3)


@pytest.mark.parametrize(
    "arguments",
    [
        {"asynchronous": True},
        {"return_logits_vocab": True},
        {"num_hypotheses": 2},
        {"sampling_topk": 5},
        {"sampling_topk": 0, "beam_size": 5},
        {"max_length": 2},
        {"beam_size": 0},
    ],
)
def test_parameters_without_effect_are_refused_by_name(
    arguments: dict[str, Any], model: WhisperModel, tokens: Tokens
) -> None:
    with pytest.raises(OptionError, match=next(reversed(arguments))):
        model.model.generate(FEATURES[None], [tokens.sot_sequence], **arguments)


def test_prompts_are_checked(model: WhisperModel, tokens: Tokens) -> None:
    for prompt in ([], [5], ["<|nothing|>"], [-1], [10**6]):
        with pytest.raises(OptionError, match="prompt"):
            model.model.generate(FEATURES[None], [prompt])
    with pytest.raises(OptionError, match="2 prompts for 1 windows"):
        model.model.generate(FEATURES[None], [tokens.sot_sequence] * 2)
    names = ["<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>"]
    parsed = parse_prompt(names, model.hf_tokenizer)
    assert parsed == parse_prompt(
        iter([*tokens.sot_sequence, tokens.no_timestamps]), model.hf_tokenizer
    )
    assert parsed.start == tuple(tokens.sot_sequence)
    assert not parsed.has_timestamps
    timed = parse_prompt([*tokens.sot_sequence, tokens.timestamp_begin, 5], model.hf_tokenizer)
    assert (timed.prefix, timed.has_timestamps) == ((tokens.timestamp_begin, 5), True)


def test_languages_are_tokens(model: WhisperModel) -> None:
    languages = model.model.detect_language(model.encode(FEATURES))
    assert languages == [[("<|fr|>", 0.9), ("<|en|>", 0.1)]]


def test_alignments_are_a_path() -> None:
    alignment = Alignment(np.array([0.1, 0.2]), np.array([0.2, 0.3]), np.array([0.5, 1.0]))
    result = AlignmentResult.of(alignment)
    assert result.text_token_probs == [0.5, 1.0]
    path = [(0, position) for position in range(5, 10)] + [(1, p) for p in range(10, 15)]
    assert result.alignments == [*path, (2, 15)]
    assert AlignmentResult.of(Alignment(*[np.zeros(0)] * 3)).text_token_probs == []


def test_words_have_times(model: WhisperModel, tokens: Tokens) -> None:
    text = tokens.encode(" Sentence 1.")
    [words] = model.find_alignment(tokens, [text], model.encode(FEATURES), 1000)
    assert [word["word"] for word in words] == [tokens.decode([token]) for token in text]
    ends = [word["end"] for word in words]
    assert ends[-1] == 10.0
    assert ends[:-1] == [word["start"] for word in words[1:]]
    assert {word["probability"] for word in words} == {0.5}
    assert model.find_alignment(tokens, [], model.encode(FEATURES), 1000) == []
    with pytest.raises(OptionError, match="median_filter_width"):
        model.find_alignment(tokens, [text], model.encode(FEATURES), 1000, 9)


def test_a_long_word_after_a_pause_starts_later() -> None:
    def word(start: float, end: float) -> dict[str, Any]:
        return {"word": " a", "tokens": [1], "start": start, "end": end, "probability": 1}

    words = [word(0, 5), word(5, 5.4), word(5.4, 5.8)]
    segment = {"start": 0, "end": 9, "tokens": [1, 1, 1]}
    assert place_words([segment], words, 100, 10.0, 10.0) == 15.8
    assert (segment["start"], segment["end"]) == (14.2, 15.8)


@pytest.mark.parametrize(
    ("tokens", "stretches", "next_start"),
    [
        ([1, 2], [(0, 30, [1, 2])], 30),
        ([100, 1, 150], [(0, 1, [100, 1, 150])], 30),
        ([100, 1, 150, 150, 2, 200], [(0, 1, [100, 1, 150]), (1, 2, [150, 2, 200])], 30),
        ([100, 1, 150, 160, 2], [(0, 1, [100, 1, 150])], 1),
        ([1, 150, 160, 2, 200, 200], [(0, 1, [1, 150]), (1.2, 2, [160, 2, 200])], 2),
        ([], [(0, 30, [])], 30),
        ([100, 100], [(0, 0, [100])], 30),
    ],
)
def test_timestamps_delimit_segments(
    tokens: list[int], stretches: list[tuple[float, float, list[int]]], next_start: float
) -> None:
    split, following = split_at_timestamps(tokens, 100, 30)
    assert [(s.start, s.end, s.tokens) for s in split] == stretches
    assert following == next_start


def test_a_text_that_fails_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(call: Call) -> Hypothesis:
        return Hypothesis((5,), -0.5 if call.sampling else -2.0, 0.1)

    engine = FakeEngine(decode=decode)
    model = load_fake(monkeypatch, engine)
    tokens = Tokens(model.hf_tokenizer)
    encoded = model.encode(FEATURES)
    prompt = model.get_prompt(tokens, [], without_timestamps=True)
    decoded = partial(model.generate_with_fallback, encoded, prompt, tokens)
    _, avg_logprob, temperature, _ = decoded(OPTIONS)
    assert (round(avg_logprob, 6), temperature) == (-0.5, 0.4)
    strict = replace(OPTIONS, log_prob_threshold=0.0)
    _, avg_logprob, temperature, _ = decoded(strict)
    assert (round(avg_logprob, 6), temperature) == (-0.5, 0.4)
    silent = replace(OPTIONS, no_speech_threshold=0.05)
    _, avg_logprob, temperature, _ = decoded(silent)
    assert (round(avg_logprob, 6), temperature) == (-2.0, 0.0)
    free = replace(OPTIONS, log_prob_threshold=None, compression_ratio_threshold=None)
    assert decoded(free)[2] == 0.0
    with pytest.raises(OptionError, match="max_new_tokens"):
        decoded(replace(OPTIONS, max_new_tokens=448))
    decoded(replace(OPTIONS, max_new_tokens=100))
    assert engine.calls[-1].options.max_new_tokens == 100


def test_prompts_of_windows(model: WhisperModel, tokens: Tokens) -> None:
    start = tokens.sot_sequence
    assert model.get_prompt(tokens, []) == start
    words, prefix = tokens.encode(" Sentence"), tokens.encode(" 1.")
    prompt = model.get_prompt(tokens, [1] * 300, hotwords="Sentence", without_timestamps=True)
    assert prompt == [tokens.sot_prev, *words, *[1] * 223, *start, tokens.no_timestamps]
    prompt = model.get_prompt(tokens, [], prefix="1.", hotwords="Sentence")
    assert prompt == [*start, tokens.timestamp_begin, *prefix]


def test_windows_follow_each_other(model: WhisperModel, engine: FakeEngine, tokens: Tokens) -> None:
    features = np.zeros((80, 7001), np.float32)
    segments = list(model.generate_segments(features, tokens, OPTIONS, log_progress=False))
    assert [(s.id, s.seek, s.start, s.end) for s in segments] == [
        (1, 0, 0.0, 30.0),
        (2, 3000, 30.0, 60.0),
        (3, 6000, 60.0, 70.0),
    ]
    assert [segment.text for segment in segments] == [f" Sentence {n}." for n in range(3)]
    first, second, third = engine.prompts
    assert second == [tokens.sot_prev, *tokens.encode(" Sentence 0."), *first]
    assert len(third) > len(second)
    options = replace(
        OPTIONS,
        condition_on_previous_text=False,
        initial_prompt="Sentence",
        clip_timestamps="0,10,40",
        multilingual=True,
        word_timestamps=True,
    )
    segments = list(model.generate_segments(features, tokens, options, log_progress=False))
    assert [segment.seek for segment in segments] == [0, 4000]
    assert segments[0].words
    assert len(engine.prompts[-2]) > len(engine.prompts[-1])  # the first window has the prompt
    assert engine.prompts[-1][1] == tokens.id_of("fr")
    assert tokens.language == tokens.id_of("en")


def test_silent_windows_have_no_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine(decode=lambda _: Hypothesis((5,), -2.0, 0.9))
    model = load_fake(monkeypatch, engine)
    features = np.zeros((80, 101), np.float32)
    decoded = partial(model.generate_segments, features, Tokens(model.hf_tokenizer))
    assert list(decoded(OPTIONS, log_progress=False)) == []
    options = replace(OPTIONS, no_speech_threshold=None)
    assert len(list(decoded(options, log_progress=False))) == 1


def test_batches_of_windows(model: WhisperModel, engine: FakeEngine, tokens: Tokens) -> None:
    pipeline = BatchedInferencePipeline(model)
    chunks = [{"offset": 5.0, "duration": 20.0}, {"offset": 40.0, "duration": 30.0}]
    options = replace(OPTIONS, word_timestamps=True, multilingual=True, initial_prompt="Sentence")
    results = pipeline.forward(np.stack([FEATURES] * 2), tokens, chunks, options)
    assert engine.batches == [2]
    assert [len(segments) for segments in results] == [1, 1]
    assert results[1][0]["text"] == " Sentence 1."
    assert results[0][0]["start"] >= 5.0
    assert 40.0 < results[1][0]["end"] == pipeline.last_speech_timestamp <= 50.0
    assert results[1][0]["seek"] == 4000
    assert [prompt[-3] for prompt in engine.prompts] == [tokens.id_of("fr")] * 2
    _, outputs = pipeline.generate_segment_batched(FEATURES[None], tokens, OPTIONS)
    assert outputs[0]["avg_logprob"] == pytest.approx(-0.1)
    assert tokens.decode(outputs[0]["tokens"]) == " Sentence 2."
