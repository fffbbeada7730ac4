"""The page in Chromium, with a microphone whose sound is a file.

They are skipped without Chromium and Playwright: `make browser` installs Playwright.
"""

import json
import re
import wave
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

from tests.browser.chromium import (
    LATE,
    chromium,
    downloaded,
    fits,
    message,
    picture,
    state,
    stop,
    sync_api,
    text_of,
    wait_for_text,
    window,
)
from tests.browser.serving import BUFFER, ITEM, RATE, Played, Site, serving, until
from tests.unit.fakes import noise
from tests.unit.media_files import encode

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TONE: Final = 440.0  # Hz, of the microphone


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("microphone") / "tone.wav"
    times = np.arange(48_000 * 20) / 48_000
    samples = (0.4 * np.sin(2 * np.pi * TONE * times) * 32767).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(48_000)
        file.writeframes(samples.tobytes())
    with chromium(path) as opened:
        yield opened


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with serving(monkeypatch) as started:
        yield started


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    with window(browser) as opened:
        yield opened


def speak(page: Any, site: Site) -> Played:
    """Open the page and start the microphone."""
    page.goto(site.url)
    page.locator("#record").click()
    state(page, "live")
    site.live.wait_for_sound()
    return site.live


def wav(seconds: float) -> bytes:
    return encode([noise(seconds)], "wav", "pcm_s16le", rate=16_000)


def dropped(page: Any, data: bytes, name: str = "talk.wav") -> None:
    page.locator("#file").set_input_files([{"name": name, "mimeType": "audio/wav", "buffer": data}])


def test_a_tail_is_replaced_and_final_text_replaces_settled_text(site: Site, page: Any) -> None:
    live = speak(page, site)
    (update,) = live.received
    assert update["session"]["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": RATE}
    assert "item.input_audio_transcription.tail" in update["session"]["include"]
    assert live.offered == [["realtime"]]

    live.say(f"{BUFFER}.speech_started", audio_start_ms=100)
    live.say(f"{ITEM}.tail", text="Good mourning")
    wait_for_text(page, "Good mourning")
    assert page.locator(".sentence").count() == 0
    live.say(f"{ITEM}.delta", delta="Good morning,")
    live.say(f"{ITEM}.tail", text=" and")
    live.say(f"{ITEM}.delta", delta=" Ann")
    live.say(f"{ITEM}.tail", text=" you're")
    wait_for_text(page, "Good morning, Ann you're")
    assert page.locator(".sentence").inner_text() == "Good morning, Ann"
    assert page.locator(".tail").inner_text() == "you're"
    colours = [
        page.locator(name).evaluate("(e) => getComputedStyle(e).color")
        for name in (".sentence", ".tail")
    ]
    assert colours[0] != colours[1]
    assert page.locator(".tail").get_attribute("aria-hidden") == "true"
    spoken = page.locator("#spoken")
    assert (spoken.inner_text(), spoken.get_attribute("aria-live")) == (
        "Good morning, Ann",
        "polite",
    )

    live.say(f"{BUFFER}.committed")
    live.say(f"{ITEM}.completed", transcript="Good morning, Anne!", languages=[{"code": "en"}])
    wait_for_text(page, "Good morning, Anne!")
    assert text_of(page) == "Good morning, Anne!"
    live.say(f"{ITEM}.tail", text=" too late")
    live.turn(5, 7, " How", " How are you?", "item_2")
    wait_for_text(page, "How are you?")
    assert text_of(page) == "Good morning, Anne! How are you?"
    stop(page)
    assert live.received[-1]["type"] == f"{BUFFER}.commit"
    assert "too late" not in text_of(page)


def test_the_sound_is_that_of_the_microphone(site: Site, page: Any) -> None:
    live = speak(page, site)
    live.wait_for_sound(2.0)
    stop(page)
    sent = np.frombuffer(bytes(live.sound[0]), "<i2") / 32768
    middle = sent[RATE // 2 : RATE // 2 + RATE]
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(RATE)))
    assert abs(int(spectrum.argmax()) - TONE) <= 1
    assert 0.1 < np.abs(middle).max() <= 1
    others = np.delete(spectrum, range(int(TONE) - 5, int(TONE) + 6))
    assert others.max() < spectrum.max() / 100

    assert page.locator("#player").evaluate("(e) => e.duration") == pytest.approx(
        len(sent) / RATE, abs=0.05
    )


RESAMPLE: Final = """async ([from, frequency]) => {
    globalThis.AudioWorkletProcessor ??= class {};
    globalThis.registerProcessor ??= () => {};
    const { Resampler } = await import(new URL("page/recorder.js", document.baseURI));
    const resampler = new Resampler(from);
    const output = [];
    for (let start = 0; start < from; start += 128) {
        const input = Float32Array.from({ length: Math.min(128, from - start) },
            (_, index) => Math.sin(2 * Math.PI * frequency * (start + index) / from));
        output.push(...resampler.process(input));
    }
    return output;
}"""


@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000, 44_100, 48_000, 96_000])
def test_the_rate_is_changed_without_aliases(site: Site, page: Any, rate: int) -> None:
    page.goto(site.url)

    def level(frequency: float) -> float:
        samples = np.array(page.evaluate(RESAMPLE, [rate, frequency]))
        assert 0 <= RATE - len(samples) < RATE * 0.02  # a second, without the filter's delay
        return float(np.sqrt(2 * np.mean(samples[RATE // 4 : RATE // 2] ** 2)))

    assert level(1000) == pytest.approx(1, abs=0.02)
    assert level(3000) == pytest.approx(1, abs=0.02)
    if rate > 2 * 13_500:
        assert level(13_500) < 0.01


def test_a_pause_begins_a_paragraph(site: Site, page: Any) -> None:
    """The pause is counted from the last word, not from the end of the turn after its silence."""
    live = speak(page, site)
    live.turn(0.1, 2.0, "One", "One.", "a")
    live.say(f"{BUFFER}.speech_stopped", "a", audio_end_ms=3000)
    live.turn(3.3, 4.0, " Two", " Two.", "b")
    live.say(f"{BUFFER}.speech_stopped", "b", audio_end_ms=5000)
    live.say(f"{BUFFER}.speech_started", "c", audio_start_ms=5600)
    words = [{"word": " Three", "start": 5.7, "end": 6.0}]
    live.say(f"{ITEM}.delta", "c", delta=" Three", words=words)
    live.say(f"{ITEM}.tail", "c", text=" and more")
    live.say(f"{BUFFER}.speech_stopped", "c", audio_end_ms=7200)
    live.turn(7.6, 8.0, " Four", " Four.", "d")  # more words of the turn before are still to come
    wait_for_text(page, "Four.")
    lines = page.locator("#transcript .words").all_inner_texts()
    assert lines == ["One. Two.", "Three and more Four."]


def test_downloads_have_the_text(site: Site, page: Any) -> None:
    live = speak(page, site)
    live.turn(0.25, 2.5, "Good", "Good morning, Ann.", "a")
    long = "Tom & Jerry <again>, who come from afar, will tell us what they have seen there in May."
    live.turn(6, 3610.5, " Tom", f" {long}", "b")
    wait_for_text(page, "in May.")
    stop(page)
    lines = page.locator("#transcript .words").all_inner_texts()
    assert lines == ["Good morning, Ann.", long]
    text = "\n\n".join(lines)
    assert downloaded(page, "txt") == f"{text}\n"
    value = json.loads(downloaded(page, "json"))
    assert (value["text"], value["language"]) == (text, "en")
    assert [(s["start"], s["end"], s["text"]) for s in value["segments"]] == [
        (0.25, 2.5, lines[0]),
        (6, 3610.5, long),
    ]
    srt = downloaded(page, "srt").split("\n\n")
    assert srt[0] == "1\n00:00:00,250 --> 00:00:02,500\nGood morning, Ann."
    cues = [cue.strip().split("\n") for cue in srt]
    assert " ".join(line for cue in cues for line in cue[2:]) == f"{lines[0]} {long}"
    assert all(len(cue) <= 4 and max(map(len, cue[2:])) <= 42 for cue in cues)
    assert cues[1][1].startswith("00:00:06,000")
    assert cues[-1][1].endswith("--> 01:00:10,500")
    ends = [cue[1].split(" --> ")[1] for cue in cues[1:-1]]
    assert ends == [cue[1].split(" --> ")[0] for cue in cues[2:]]
    vtt = downloaded(page, "vtt")
    assert vtt.startswith("WEBVTT\n\n00:00:00.250 --> 00:00:02.500\nGood morning, Ann.\n\n")
    assert "Tom &amp; Jerry &lt;again&gt;" in vtt


def test_a_sentence_is_heard_and_the_text_is_copied(site: Site, page: Any) -> None:
    live = speak(page, site)
    live.wait_for_sound(1.5)
    live.turn(0.1, 0.7, "One", "One.", "a")
    live.turn(0.8, 1.4, " Two", " Two.", "b")
    wait_for_text(page, "Two.")
    stop(page)
    page.locator(".sentence").nth(1).click()
    sync_api.expect(page.locator(".sentence.playing")).to_have_text("Two.", timeout=LATE)
    assert page.locator("#player").evaluate("(e) => e.currentTime") >= 0.8
    page.locator(".sentence").first.focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == "Two."
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    sync_api.expect(page.locator(".sentence.playing")).to_have_text("One.", timeout=LATE)
    state(page, "done")  # the key is that of the sentence, not of the microphone
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#copy").click()
    sync_api.expect(page.locator("#copy")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "One. Two."


def test_the_keyboard_starts_goes_on_and_cancels(site: Site, page: Any) -> None:
    page.goto(site.url)
    page.keyboard.press("Space")
    state(page, "live")
    live = site.live
    live.wait_for_sound()
    live.turn(0, 1, "One", "One.", "a")
    wait_for_text(page, "One.")
    page.keyboard.press("Enter")
    state(page, "done")
    first = len(live.sound[0]) / 2 / RATE
    page.locator("main").click()
    page.keyboard.press("Space")  # the recording goes on
    state(page, "live")
    until(lambda: len(live.sound) == 2, "no second session")
    live.wait_for_sound()
    live.say(f"{BUFFER}.speech_started", "b", audio_start_ms=200)
    live.say(f"{ITEM}.delta", "b", delta="Two")
    live.say(f"{ITEM}.tail", "b", text=" or three")
    wait_for_text(page, "or three")
    page.keyboard.press("Escape")
    state(page, "done")
    assert text_of(page).replace("\n", " ") == "One. Two"
    assert page.locator(".tail").count() == 0
    second = float(page.locator(".sentence").nth(1).get_attribute("data-start"))
    assert second == pytest.approx(first + 0.2, abs=0.15)
    page.once("dialog", lambda dialog: dialog.accept())
    page.locator("#clear").click()
    state(page, "empty")
    assert page.locator(".sentence").count() == 0


def test_a_broken_connection_is_opened_again_and_nothing_is_lost(site: Site, page: Any) -> None:
    live = speak(page, site)
    live.turn(0, 0.2, "One", "One.", "a")
    live.say(f"{BUFFER}.speech_started", "b", audio_start_ms=300)
    live.say(f"{ITEM}.delta", "b", delta="Half a")
    wait_for_text(page, "Half a")
    live.wait_for_sound(1.0)
    live.close(1012)
    until(lambda: len(live.sound) == 2, "the page does not connect again")
    live.wait_for_sound(1.0)  # from the start of the turn that was not complete
    assert "Half a" not in text_of(page)
    live.turn(0.1, 0.9, "Half", "Half a sentence.", "b")
    wait_for_text(page, "Half a sentence.")
    first, again = (np.frombuffer(bytes(sound), "<i2") for sound in live.sound)
    at = 2400 * round(0.3 * RATE / 2400 - 0.5 + 1e-9)
    assert np.array_equal(first[at : at + 4800], again[:4800])
    live.close(1008)
    state(page, "done")
    assert "kept" in message(page, "connection")
    assert text_of(page) == "One. Half a sentence."


def test_why_there_is_no_microphone(site: Site, page: Any, browser: Any) -> None:
    page.goto(site.named_url)
    assert page.evaluate("isSecureContext") is False
    sentence = message(page, "https")
    assert sentence.count(".") == 1
    page.locator("#record").click()
    message(page, "https")
    state(page, "empty")
    for name, part in (
        ("NotAllowedError", "does not let this page"),
        ("NotFoundError", "No microphone was found"),
        ("NotReadableError", "Another program"),
    ):
        other = browser.new_page()
        other.add_init_script(
            "navigator.mediaDevices.getUserMedia = async () => { "
            f"throw new DOMException('no', '{name}'); }};"
        )
        other.goto(site.url)
        other.locator("#record").click()
        assert message(other, part).count(".") == 1
        state(other, "empty")
        other.close()
    assert site.live.offered == []


def test_a_session_that_is_refused_says_so(site: Site, page: Any) -> None:
    site.live.refuses = True
    page.goto(site.url)
    page.locator("#record").click()
    message(page, "accepts no live session")


def test_a_file_is_transcribed_with_progress_and_can_be_cancelled(site: Site, page: Any) -> None:
    page.set_viewport_size({"width": 360, "height": 720})
    page.goto(site.url)
    site.engine.go.clear()
    dropped(page, wav(70))
    state(page, "sending")
    until(lambda: not site.is_idle, "the server has no request")
    assert fits(page)
    picture(page, "sending-360")
    page.keyboard.press("Escape")
    state(page, "empty")
    message(page, "Cancelled")
    until(lambda: site.is_idle, "the server still works")
    site.engine.go.set()
    dropped(page, wav(70))
    state(page, "done")
    lines = page.locator("#transcript .sentence").all_inner_texts()
    assert len(lines) >= 3
    assert downloaded(page, "txt").replace("\n\n", " ").strip() == " ".join(lines)
    value = json.loads(downloaded(page, "json"))
    assert value["duration"] == pytest.approx(70, abs=0.1)
    assert value["language"] == "en"
    assert page.locator("#again").is_hidden()
    assert page.locator("#clock").inner_text() == "1:10"


def test_the_recording_is_transcribed_again(site: Site, page: Any) -> None:
    live = speak(page, site)
    live.wait_for_sound(1.0)
    live.turn(0, 1, "Live", "Live text.", "a")
    wait_for_text(page, "Live text.")
    stop(page)
    site.engine.go.clear()
    page.locator("#again").click()
    state(page, "sending")
    until(lambda: not site.is_idle, "the server has no request")
    page.locator("#cancel").click()
    state(page, "done")
    assert text_of(page) == "Live text."  # the text from before
    site.engine.go.set()
    page.locator("#again").click()
    wait_for_text(page, "Sentence")
    state(page, "done")
    assert "Live text." not in text_of(page)


def test_errors_of_the_server_are_shown(site: Site, page: Any) -> None:
    page.goto(site.url)
    dropped(page, b"no sound at all" * 9)
    state(page, "empty")
    assert len(message(page, "")) > 10
    assert "bad" in page.locator("#message").get_attribute("class")


def test_a_key_is_asked_for_kept_and_sent(monkeypatch: pytest.MonkeyPatch, page: Any) -> None:
    with serving(monkeypatch, api_key="s3cret") as site:
        page.goto(site.url)
        message(page, "needs a key")
        page.locator("#key").fill("s3cret")
        page.locator("#key").press("Tab")
        sync_api.expect(page.locator("#message")).to_be_empty(timeout=LATE)
        page.keyboard.press("Escape")
        dropped(page, wav(3))
        wait_for_text(page, "Sentence")
        state(page, "done")
        page.reload()
        assert page.locator("#key").input_value() == "s3cret"
        page.locator("#record").click()
        state(page, "live")
        site.live.wait_for_sound()
        assert site.live.offered == [["realtime", "openai-insecure-api-key.s3cret"]]
        page.keyboard.press("Escape")
        state(page, "done")


def meeting(page: Any) -> None:
    """Answer the next file as a server that tells speakers apart."""
    lines = [
        (0, "SPEAKER_00", "Good morning. Shall we begin with the trial in Lisbon?"),
        (4, "SPEAKER_01", "Yes. We have asked two hundred people, and most of them liked it."),
        (8, "SPEAKER_01", "Those who did not said that the text came too late."),
        (14, "SPEAKER_00", "That is what we have changed since. Can you show us?"),
        (18, "SPEAKER_02", "I can. Look at the second page, please."),
    ]
    segments: list[dict[str, Any]] = [
        {"type": "transcript.text.segment", "id": f"seg_{i}", "start": at, "end": at + 3.5}
        | {"speaker": who, "text": text}
        for i, (at, who, text) in enumerate(lines)
    ]
    done: dict[str, Any] = {"type": "transcript.text.done", "text": "", "segments": segments}
    done |= {"usage": {"seconds": 22.0}, "languages": [{"code": "en"}]}
    events = [*({**s, "speaker": "SPEAKER_00", "provisional": True} for s in segments), done]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    page.route("**/v1/audio/diarization", lambda route: route.fulfill(status=200, body="{}"))
    page.route(
        "**/v1/audio/transcriptions",
        lambda route: route.fulfill(status=200, content_type="text/event-stream", body=body),
    )


def test_speakers_have_colours(site: Site, page: Any) -> None:
    page.goto(site.url)
    meeting(page)
    dropped(page, wav(22), "meeting.wav")
    state(page, "done")
    names = page.locator(".speaker").all_inner_texts()
    assert names == ["Speaker 1", "Speaker 2", "Speaker 1", "Speaker 3"]
    colours = page.locator(".speaker").evaluate_all(
        "(all) => all.map((e) => getComputedStyle(e).color)"
    )
    assert colours[0] == colours[2]
    assert len(set(colours)) == 3
    assert downloaded(page, "txt").startswith("Speaker 1: Good morning. Shall we")
    assert "<v Speaker 2>Yes." in downloaded(page, "vtt")
    assert "Speaker 3: I can." in downloaded(page, "srt")
    assert json.loads(downloaded(page, "json"))["segments"][1]["speaker"] == "SPEAKER_01"
    picture(page, "speakers")


def test_a_server_without_weights_for_speakers_is_not_asked_for_them(site: Site, page: Any) -> None:
    page.goto(site.url)
    page.route("**/v1/audio/diarization", lambda route: route.fulfill(status=501, body="{}"))
    with page.expect_request("**/v1/audio/transcriptions") as sent:
        dropped(page, wav(3))
    state(page, "done")
    assert "diarize" not in (sent.value.post_data_buffer or b"").decode("latin-1")
    assert not page.locator("#speakers").is_checked()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 960])
def test_the_page_fits_each_window(site: Site, page: Any, width: int, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 720})
    page.goto(site.url)
    assert fits(page)
    picture(page, f"empty-{width}-{scheme}")
    live = speak(page, site)
    live.wait_for_sound(2.0)
    live.turn(0.2, 2.4, "Good", "Good morning, and welcome to the workshop.", "a")
    live.turn(2.6, 6, " We", " We have a long list, so let us begin with the schedule.", "b")
    live.turn(9, 12, " Ann", " Ann will tell us what the trial in Lisbon has shown.", "c")
    live.say(f"{BUFFER}.speech_started", "d", audio_start_ms=12500)
    live.say(f"{ITEM}.delta", "d", delta="Thank you. The first results are")
    live.say(f"{ITEM}.tail", "d", text=" better than we had")
    wait_for_text(page, "better than we had")
    assert fits(page)
    picture(page, f"live-{width}-{scheme}")
    page.keyboard.press("Escape")
    state(page, "done")
    assert fits(page)
    picture(page, f"done-{width}-{scheme}")
    page.locator("summary").click()
    box = page.locator(".panel").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    picture(page, f"settings-{width}-{scheme}")
    paper = brightness(page, "backgroundColor")
    ink = brightness(page, "color")
    assert abs(paper - ink) > 500
    assert (paper > ink) == (scheme == "light")


def brightness(page: Any, kind: str) -> int:
    """The sum of red, green and blue of a colour of the page."""
    value = page.locator("body").evaluate(f"(e) => getComputedStyle(e).{kind}")
    return sum(map(int, re.findall(r"\d+", value)[:3]))
