"""Live sessions with a fake engine: the order of events, options, errors, and the end."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil
import pytest

import whisperbatch as wb
from tests.unit.counting_source import wait_until
from tests.unit.fakes import Call, FakeEngine
from tests.unit.live.fakes import LoudIsSpeech, audio
from whisperbatch.live import (
    Failed,
    Final,
    Lag,
    LiveEvent,
    LiveSession,
    Settled,
    Tail,
    TurnEnded,
    TurnStarted,
    ear,
)
from whisperbatch.live import session as sessions

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


@pytest.fixture(autouse=True)
def _detector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ear, "CausalDetector", LoudIsSpeech)


def six_words(engine: FakeEngine) -> Any:
    """Return a decoder that says six words, without those of the prefix."""

    def decode(call: Call) -> str:
        prompt = list(call.prompt)
        start = prompt.index(engine.tokenizer.token_to_id("<|notimestamps|>") or -1)
        prefix = str(engine.tokenizer.decode(prompt[start + 1 :]))
        return "".join(f" {word}" for word in WORDS[len(prefix.split()) : 6])

    return decode


@pytest.fixture
def engine() -> FakeEngine:
    engine = FakeEngine()
    engine._decode = six_words(engine)
    return engine


@pytest.fixture
def asr(engine: FakeEngine) -> Iterator[wb.Transcriber]:
    with wb.Transcriber(engine) as asr:
        yield asr


def feed(session: LiveSession, samples: Any, block: int = 1600) -> None:
    for start in range(0, len(samples), block):
        session.feed(samples[start : start + block])
        session._wait_for_text()


def events_of(session: LiveSession, samples: Any) -> list[LiveEvent]:
    feed(session, samples)
    session.close()
    return [event for event in session if not isinstance(event, Lag)]


def texts(events: list[LiveEvent], turn: int) -> tuple[str, str]:
    """The settled and the final text of a turn."""
    settled = [e.text for e in events if isinstance(e, Settled) and e.turn == turn]
    final = [e.text for e in events if isinstance(e, Final) and e.turn == turn]
    return "".join(settled), " ".join(final)


def test_the_events_of_two_turns_come_in_order(asr: wb.Transcriber) -> None:
    events = events_of(asr.live(language="en"), audio(1.0, 3.0, 1.0, 3.0, 1.0))
    for turn in (0, 1):
        own = [event for event in events if getattr(event, "turn", None) == turn]
        kinds = [type(event) for event in own]
        assert kinds[0] is TurnStarted
        assert kinds[-1] is Final
        assert kinds.index(TurnEnded) < len(kinds) - 1
        assert texts(events, turn) == ("one two three four five six", "one two three four five six")
        early = own[: kinds.index(TurnEnded)]
        assert any(isinstance(event, Settled) for event in early), "text comes during the turn"
        assert isinstance(own[-1], Final)
        assert own[-1].complete
        assert own[-1].language == "en"
        tails = [event.text for event in own if isinstance(event, Tail)]
        assert tails[-1] == ""
    ids = [s.id for event in events if isinstance(event, Final) for s in event.segments]
    assert ids == list(range(len(ids)))


def test_the_final_text_of_a_turn_begins_with_the_known_text_before(engine: FakeEngine) -> None:
    with wb.Transcriber(engine) as asr:
        events_of(asr.live(language="en", beam_size=3), audio(1.0, 3.0, 1.0, 3.0, 13.0, 3.0, 1.0))
    finals = [call.prompt for call in engine.calls if call.options.beam_size == 3]
    start = finals[0].index(engine.tokenizer.token_to_id("<|notimestamps|>") or -1)
    prefixes = [str(engine.tokenizer.decode(list(prompt[start + 1 :]))) for prompt in finals]
    assert prefixes[0] == ""
    assert "one two three four five six" in [prefix.strip() for prefix in prefixes[1:]]
    assert prefixes[-1] == "", "nobody has spoken for more than 10 s"


def test_the_newest_audio_has_a_window_of_its_own(
    asr: wb.Transcriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows: list[int] = []
    encode = FakeEngine.encode

    def recorded(self: FakeEngine, features: Any) -> Any:
        windows.append(features.shape[2])
        return encode(self, features)

    monkeypatch.setattr(FakeEngine, "encode", recorded)
    session = asr.live(language="en", turns="manual", delay="medium")
    feed(session, audio(0.1, 4.5))
    partial = set(windows)
    session.close()
    list(session)
    assert partial <= {500, 750}, "3 s of silence, in steps of 2.5 s"
    assert 750 in partial
    assert windows[-1] == 1000, "a final text has 5 s of silence, in steps of 5 s"


def test_settled_words_have_times_within_the_turn(asr: wb.Transcriber) -> None:
    events = events_of(asr.live(language="en"), audio(2.0, 3.0, 1.0))
    words = [word for event in events if isinstance(event, Settled) for word in event.words]
    assert "".join(word.word for word in words).split() == WORDS[:6]
    assert all(1.8 < a.start <= a.end < 5.3 for a in words)
    assert [w.start for w in words] == sorted(w.start for w in words)


def test_with_the_longest_delay_only_final_texts_are_settled(asr: wb.Transcriber) -> None:
    events = events_of(asr.live(language="en", delay="xhigh"), audio(1.0, 3.0, 1.0))
    kinds = [type(event) for event in events]
    assert kinds == [TurnStarted, TurnEnded, Settled, Tail, Final]


def test_silence_has_no_events_and_no_work(asr: wb.Transcriber, engine: FakeEngine) -> None:
    assert events_of(asr.live(), audio(20.0)) == []
    assert not engine.calls


def test_nothing_was_fed(asr: wb.Transcriber) -> None:
    session = asr.live()
    session.close()
    session.close()
    assert list(session) == []


def test_flush_ends_a_manual_turn_also_without_speech(asr: wb.Transcriber) -> None:
    session = asr.live(turns="manual", language="en")
    feed(session, audio(0.5, 2.0, 3.0))
    session.flush()
    session.flush()  # the turn has ended
    feed(session, audio(1.0))
    session.close()
    events = list(session)
    assert [e.turn for e in events if isinstance(e, TurnStarted)] == [0, 1]
    finals = [event for event in events if isinstance(event, Final)]
    assert [final.complete for final in finals] == [True, True]
    assert finals[0].text == "one two three four five six"


def test_a_long_turn_has_several_finals_and_one_text(asr: wb.Transcriber) -> None:
    session = asr.live(language="en", chunk_length=10.0, delay="xhigh")
    events = events_of(session, audio(0.5, 25.0, 1.0))
    finals = [event for event in events if isinstance(event, Final)]
    assert [final.complete for final in finals] == [*[False] * (len(finals) - 1), True]
    assert len(finals) >= 3
    settled, final = texts(events, 0)
    assert settled.split() == final.split() == WORDS[:6] * (len(final.split()) // 6)


@pytest.mark.parametrize("form", ["float", "int16", "bytes", "odd bytes"])
def test_samples_in_all_forms_give_the_same_events(asr: wb.Transcriber, form: str) -> None:
    samples = audio(1.0, 2.0, 1.0)
    integers = np.round(samples * 32768).astype(np.int16)
    given = {
        "float": samples,
        "int16": integers,
        "bytes": integers.astype("<i2").tobytes(),
        "odd bytes": integers.astype("<i2").tobytes(),
    }[form]
    session = asr.live(language="en")
    feed(session, given, {"odd bytes": 3333, "bytes": 3200}.get(form, 1600))
    session.close()
    started, *_, final = [event for event in session if not isinstance(event, Tail)]
    assert isinstance(started, TurnStarted)
    assert started.start == pytest.approx(0.9, abs=0.05)
    assert isinstance(final, Final)
    assert final.text == "one two three four five six"
    assert session.duration == pytest.approx(4.0, abs=0.04)


@pytest.mark.parametrize("rate", [8000, 24_000, 48_000])
def test_a_session_that_has_ended_holds_no_threads(asr: wb.Transcriber, rate: int) -> None:
    process = psutil.Process()
    before = process.num_threads()
    sessions_held = []
    for end in ("close", "cancel") * 4:
        session = asr.live(language="en", sampling_rate=rate)
        sessions_held.append(session)
        session.feed(np.zeros(rate, np.float32))
        getattr(session, end)()
        assert list(session) == []
    wait_until(lambda: process.num_threads() <= before)


@pytest.mark.parametrize("rate", [8000, 24_000, 48_000])
def test_other_sampling_rates_are_converted(asr: wb.Transcriber, rate: int) -> None:
    samples = np.repeat(audio(1.0, 2.0, 1.0), 3)[:: 48_000 // rate]
    session = asr.live(language="en", sampling_rate=rate)
    feed(session, samples, rate // 10)
    session.close()
    ended = next(event for event in session if isinstance(event, TurnEnded))
    assert ended.start == pytest.approx(0.9, abs=0.05)
    assert ended.end == pytest.approx(3.1, abs=0.05)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros(10, np.float64), "float64"),
        (np.zeros((10, 2), np.float32), "one channel"),
        (np.array([0.0, np.nan], np.float32), "NaN"),
        ([0.0, 1.0], "list"),
    ],
)
def test_wrong_samples_are_refused_and_the_session_goes_on(
    asr: wb.Transcriber, samples: Any, message: str
) -> None:
    session = asr.live(language="en")
    with pytest.raises(wb.AudioError, match=message):
        session.feed(samples)
    assert session.duration == 0
    assert isinstance(events_of(session, audio(1.0, 2.0, 1.0))[-1], Final)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"delay": "none"}, "delay"),
        ({"turns": "speaker"}, "turns"),
        ({"turn_silence": 0.01}, "turn_silence"),
        ({"turns": "manual", "turn_silence": 1.0}, "turn_silence"),
        ({"sentence_silence": 31.0}, "sentence_silence"),
        ({"turns": "manual", "sentence_silence": 1.0}, "sentence_silence"),
        ({"max_lag": 1.0}, "max_lag"),
        ({"diarize": True}, "diarize"),
        ({"multilingual": True}, "multilingual"),
        ({"condition_on_previous_text": True}, "condition_on_previous_text"),
        ({"timestamps": "tokens"}, "timestamps"),
        ({"clip_timestamps": ((0, 1),)}, "clip_timestamps"),
        ({"vad": False}, "vad"),
        ({"frobnicate": 1}, "frobnicate"),
    ],
)
def test_options_without_effect_are_refused(
    asr: wb.Transcriber, keywords: dict[str, Any], message: str
) -> None:
    with pytest.raises(wb.OptionError, match=message):
        asr.live(**keywords)
    with asr.live(language="en") as session:
        with pytest.raises(wb.OptionError, match=message):
            session.update(**keywords)
        assert session.options.language == "en"


def test_new_options_hold_from_the_next_turn(asr: wb.Transcriber, engine: FakeEngine) -> None:
    session = asr.live(language="en")
    feed(session, audio(1.0, 2.0))
    session.update(language="de", turn_silence=1.5)
    feed(session, audio(1.0, 2.0, 1.0))
    session.close()
    events = list(session)
    assert [e.language for e in events if isinstance(e, Final)] == ["en", "de"]
    ended = [event for event in events if isinstance(event, TurnEnded)]
    assert len(ended) == 2
    with pytest.raises(wb.OptionError, match="sampling_rate"):
        asr.live().update(sampling_rate=8000)


def test_the_language_is_detected_once_there_is_enough_speech(asr: wb.Transcriber) -> None:
    events = events_of(asr.live(), audio(1.0, 4.0, 1.0, 1.0, 1.0))
    assert {e.language for e in events if isinstance(e, Final | Settled)} == {"fr"}
    first = next(event for event in events if isinstance(event, Settled))
    assert first.turn == 0


def test_a_part_that_fails_does_not_end_the_session(engine: FakeEngine) -> None:
    engine._failing = {"decode": {0, 1}}  # in the pause, and at the end of the turn
    with wb.Transcriber(engine) as asr:
        session = asr.live(language="en", delay="xhigh")
        events = events_of(session, audio(1.0, 2.0, 1.0, 2.0, 1.0))
    failed = [event for event in events if isinstance(event, Failed)]
    finals = [event for event in events if isinstance(event, Final)]
    assert [e.turn for e in failed] == [0]
    assert isinstance(failed[0].error, wb.EngineError)
    assert [(e.turn, e.text) for e in finals] == [(1, "one two three four five six")]


def test_a_session_that_is_too_far_behind_refuses_audio(engine: FakeEngine) -> None:
    engine._delay = {"decode": 1.0}
    with wb.Transcriber(engine) as asr, asr.live(language="en", max_lag=10.0) as session:
        for _ in range(4):
            session.feed(audio(0.1, 2.0, 0.9))
        with pytest.raises(wb.errors.BacklogError, match="max_lag"):
            session.feed(audio(0.1))
        assert session.lag > 9


@pytest.fixture
def behind(engine: FakeEngine) -> Iterator[LiveSession]:
    """A session that takes no more audio, until the engine is ready with a row."""
    engine._delay = {"decode": 0.3}
    with wb.Transcriber(engine) as asr:
        session = asr.live(language="en", max_lag=10.0, delay="xhigh")
        for _ in range(4):
            session.feed(audio(0.1, 2.0, 0.9))
        yield session
        session.cancel()


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_feed_waits_for_room(behind: LiveSession, timeout: float | None) -> None:
    with pytest.raises(wb.BacklogError):
        behind.feed(audio(0.1))
    with pytest.raises(wb.BacklogError):
        behind.feed(audio(0.1), timeout=0.01)
    before = behind.duration
    behind.feed(audio(0.5), timeout=timeout)
    assert behind.duration == pytest.approx(before + 0.5, abs=0.04)
    assert behind.lag < 10
    behind.close()
    assert sum(isinstance(event, Final) for event in behind) == 4


def test_a_task_waits_for_room_and_others_go_on(behind: LiveSession) -> None:
    async def run() -> None:
        before = behind.duration
        with pytest.raises(wb.BacklogError, match="max_lag"):
            await behind.feed_async(audio(0.1))
        with pytest.raises(wb.BacklogError):
            await behind.feed_async(audio(0.1), timeout=0.01)
        waiting = asyncio.create_task(behind.feed_async(audio(0.5), timeout=None))
        given_up = asyncio.create_task(behind.feed_async(audio(5.0), timeout=60))
        await asyncio.sleep(0.02)
        given_up.cancel()
        assert not waiting.done()
        await waiting
        await behind.feed_async(audio(0.5))
        assert behind.duration == pytest.approx(before + 1, abs=0.08)

    asyncio.run(run())


@pytest.mark.parametrize("ending", ["close", "cancel"])
def test_the_end_of_a_session_ends_the_wait_for_room(behind: LiveSession, ending: str) -> None:
    before = behind.duration

    async def run() -> None:
        waits = [
            asyncio.to_thread(behind.feed, audio(0.1), timeout=None),
            behind.feed_async(audio(0.1), timeout=None),
        ]
        waiting = [asyncio.ensure_future(wait) for wait in waits]
        await asyncio.sleep(0.02)
        getattr(behind, ending)()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in results] == [wb.ClosedError] * 2

    asyncio.run(run())
    assert behind.duration == pytest.approx(before, abs=0.04)


def test_a_cancelled_session_ends_without_text(engine: FakeEngine) -> None:
    engine._delay = {"decode": 0.3}
    with wb.Transcriber(engine) as asr:
        session = asr.live(language="en")
        session.feed(audio(1.0, 2.0, 1.0))
        session.cancel()
        session.cancel()
        assert not any(isinstance(event, Final) for event in session)
        with pytest.raises(wb.ClosedError):
            session.feed(audio(1.0))
        rows = len(engine.calls)
        session._thread.join(5)
        assert len(engine.calls) <= rows + 1


def test_a_cleared_turn_gives_an_empty_final(asr: wb.Transcriber) -> None:
    session = asr.live(language="en", turns="manual", delay="xhigh")
    feed(session, audio(0.5, 2.0))
    session.clear()
    session.close()
    *_, final = [event for event in session if not isinstance(event, Lag)]
    assert isinstance(final, Final)
    assert (final.text, final.complete) == ("", True)
    assert final.duration < 0.1


def test_closing_the_model_ends_the_session(engine: FakeEngine) -> None:
    asr = wb.Transcriber(engine)
    session = asr.live(language="en")
    asr.close()
    with pytest.raises(wb.ClosedError, match="Transcriber was closed"):
        list(session)
    with pytest.raises(wb.ClosedError):
        session.feed(audio(1.0))
    session._thread.join(5)
    assert not session._thread.is_alive()


def test_a_task_reads_the_events(asr: wb.Transcriber) -> None:
    async def read() -> list[LiveEvent]:
        session = asr.live(language="en")
        reader = asyncio.create_task(collect(session))
        await asyncio.sleep(0)
        feed(session, audio(1.0, 2.0, 1.0))
        session.close()
        return await reader

    async def collect(session: LiveSession) -> list[LiveEvent]:
        return [event async for event in session]

    events = asyncio.run(read())
    assert isinstance(events[-1], Final)


def test_a_recording_feeds_the_session(asr: wb.Transcriber) -> None:
    session = asr.live(audio(1.0, 2.0, 11.0, 2.0), language="en")
    finals = [event.text for event in session if isinstance(event, Final)]
    assert finals == ["one two three four five six"] * 2


def unplugged(samples: Any) -> Iterator[Any]:
    yield samples[:, None]
    raise wb.AudioError("was unplugged", source="microphone")


def test_a_recording_that_fails_ends_the_session_after_its_text(
    asr: wb.Transcriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = audio(1.0, 2.0, 1.0, 2.0)
    reader = wb.open_audio(samples)
    monkeypatch.setattr(reader, "channels", lambda: unplugged(samples))
    session = asr.live(reader, language="en")
    found: list[LiveEvent] = []
    with pytest.raises(wb.AudioError, match="unplugged"):
        found.extend(session)
    assert any(isinstance(event, Final) for event in found)


def test_sessions_share_calls_and_threads_end(engine: FakeEngine) -> None:
    before = threading.active_count()
    with wb.Transcriber(engine) as asr:
        sessions = [asr.live(language="en") for _ in range(5)]
        for session in sessions:
            session.feed(audio(1.0, 2.0, 1.0))
            session.close()
        assert all(any(isinstance(event, Final) for event in session) for session in sessions)
        for session in sessions:
            session._thread.join(5)
    assert threading.active_count() <= before + 1


def test_a_partial_text_that_fails_does_not_end_the_session(engine: FakeEngine) -> None:
    engine._failing = {"decode": {0, 1, 2}}
    with wb.Transcriber(engine) as asr:
        events = events_of(asr.live(language="en"), audio(1.0, 4.0, 1.0))
    assert not any(isinstance(event, Failed) for event in events)
    assert texts(events, 0) == ("one two three four five six",) * 2


@pytest.mark.parametrize("is_sentence", [True, False])
def test_a_sentence_ends_a_turn_early(
    asr: wb.Transcriber, monkeypatch: pytest.MonkeyPatch, *, is_sentence: bool
) -> None:
    asked: list[str] = []

    def ends_sentence(text: str) -> bool:
        asked.append(text.strip())
        return is_sentence

    monkeypatch.setattr(sessions, "ends_sentence", ends_sentence)
    session = asr.live(language="en", turn_silence=3.0, sentence_silence=0.4)
    feed(session, audio(1.0, 3.0, 1.0))
    assert (session.flush() is None) == is_sentence  # whether the turn has ended
    session.close()
    assert texts(list(session), 0)[1] == "one two three four five six"
    assert asked == ["six"]


def test_groups_divide_the_engine(asr: wb.Transcriber) -> None:
    """However many sessions a group has; within a group, the weights of its sessions count."""

    def weights() -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for claim in asr._live._shares.values():
            found.setdefault(str(claim.group), []).append(round(claim.share.weight, 6))
        return found

    whole = sessions.LIVE_SHARE / (1 - sessions.LIVE_SHARE)
    opened = [asr.live(group="ann") for _ in range(3)]
    assert weights() == {"ann": [round(whole / 3, 6)] * 3}
    opened.append(asr.live(group="bob", weight=2.0))
    opened.append(asr.live(group="bob"))
    ann, bob = whole / 3, whole * 2 / 3  # as 1 to 2
    assert weights() == {
        "ann": [round(ann / 3, 6)] * 3,
        "bob": [round(bob * 2 / 3, 6), round(bob / 3, 6)],
    }
    for session in opened[:4]:
        session.close()
        list(session)
    wait_for_end(asr, 1)
    assert weights() == {"bob": [round(whole, 6)]}
    opened[4].cancel()
    wrong: list[dict[str, Any]] = [{"weight": 0.0}, {"weight": 101.0}, {"group": []}]
    for keywords in wrong:
        with pytest.raises(wb.OptionError, match=next(iter(keywords))):
            asr.live(**keywords)


def test_short_sessions_of_a_group_do_not_each_begin_first(asr: wb.Transcriber) -> None:
    """A session continues at the virtual time of its group; that of another group does not."""
    first = asr.live(group="ann")
    events_of(first, audio(0.3, 2.0, 1.0))
    wait_for_end(asr, 0)
    second, other = asr.live(group="ann"), asr.live(group="bob")
    times = {claim.group: claim.share.virtual_time for claim in asr._live._shares.values()}
    assert times["ann"] > times["bob"] == 0.0
    for session in (second, other):
        session.cancel()


def test_the_times_of_few_groups_are_kept(
    asr: wb.Transcriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_GROUPS", 2)
    for number in range(4):
        asr.live(group=number).close()
        wait_for_end(asr, 0)
    assert list(asr._live._times) == [2, 3]


def wait_for_end(asr: wb.Transcriber, left: int) -> None:
    """Wait until all but some sessions have ended."""
    for _ in range(2000):
        if len(asr._live._shares) == left:
            return
        threading.Event().wait(0.005)
    raise TimeoutError
