"""The page with the real server, real weights and real speech from the microphone.

They are skipped without Chromium and Playwright: `make browser` installs Playwright.
`--log-cli-level=INFO` prints the age of the first words and the word errors.
"""

import base64
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from benchmarks import clips, recordings
from benchmarks.recordings import Recording, Utterance
from benchmarks.scoring import word_error_rate
from tests.browser.chromium import (
    LATE,
    chromium,
    downloaded,
    picture,
    state,
    stop,
    sync_api,
    text_of,
    window,
)
from tests.model.server import RunningServer, running
from whisperbatch.diarization import open_diarizer
from whisperbatch.errors import MissingExtraError
from whisperbatch.writers.reading import read_cues

pytestmark = [pytest.mark.browser, pytest.mark.slow]

log = logging.getLogger(__name__)

TEXT: Final = "conversation.item.input_audio_transcription"
ERRORS: Final = 0.25  # of the words
REST: Final = 60.0  # seconds of silence after the speech, before the microphone begins again
CLOCK: Final = """
(() => {
    const times = window.times = {};
    const media = navigator.mediaDevices;
    const open = media.getUserMedia.bind(media);
    media.getUserMedia = async (wanted) => {
        const stream = await open(wanted);
        times.opened = performance.now();
        return stream;
    };
    addEventListener("DOMContentLoaded", () => {
        const look = () => {
            for (const name of ["tail", "sentence"]) {
                if (document.querySelector(`#transcript .${name}`)) {
                    times[name] ??= performance.now();
                }
            }
        };
        new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
    });
})();
"""
DROP: Final = """([text, name]) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([bytes], name, { type: "audio/wav" }));
    for (const kind of ["dragover", "drop"]) {
        const given = { dataTransfer, bubbles: true, cancelable: true };
        document.body.dispatchEvent(new DragEvent(kind, given));
    }
}"""


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running() as started:
        yield started


@pytest.fixture(scope="module")
def spoken() -> Recording:
    """About twelve seconds of speech with pauses."""
    return recordings.prompts("en", duration=12)


@pytest.fixture(scope="module")
def browser(spoken: Recording, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    rest = np.zeros(round(REST * recordings.SAMPLING_RATE), np.int16)
    played = Recording("played", np.concatenate([spoken.samples, rest]), spoken.utterances)
    path = tmp_path_factory.mktemp("microphone") / "talk.wav"
    with chromium(recordings.write(played, path)) as opened:
        yield opened


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    with window(browser) as opened:
        opened.add_init_script(CLOCK)
        yield opened


@dataclass
class Heard:
    """The events of the server's live session."""

    events: list[dict[str, Any]] = field(default_factory=list)

    def listen(self, socket: Any) -> None:
        """Note the events of a WebSocket."""
        socket.on("framereceived", lambda text: self.events.append(json.loads(text)))

    def joined(self, kind: str, name: str) -> str:
        """The texts of these events; those of different turns have a space between them."""
        turns: dict[str, str] = {}
        for event in self.events:
            if event["type"] == f"{TEXT}.{kind}":
                turns[event["item_id"]] = turns.get(event["item_id"], "") + event[name]
        return " ".join(turns.values())


def spoke(page: Any, server: RunningServer, spoken: Recording) -> Heard:
    """Speak until the microphone is silent and the text is complete, and stop."""
    heard = Heard()
    page.on("websocket", heard.listen)
    page.goto(server.url)
    page.locator("#record").click()
    state(page, "live")
    last = spoken.utterances[-1].text.split()[-1].strip(".,!?")
    page.wait_for_timeout(len(spoken.samples) / recordings.SAMPLING_RATE * 1000 + 1000)
    sync_api.expect(page.locator("#transcript")).to_contain_text(last, timeout=LATE)
    stop(page)
    return heard


def test_speech_becomes_text(
    server: RunningServer, page: Any, spoken: Recording, tmp_path: Path
) -> None:
    heard = spoke(page, server, spoken)
    assert not [event for event in heard.events if event["type"] in {"error", f"{TEXT}.failed"}]
    value = json.loads(downloaded(page, "json"))
    # the page counts from the opened microphone; Chromium plays the file a little later
    late = value["segments"][0]["start"] - spoken.utterances[0].start
    assert -0.5 < late < 5
    times = page.evaluate("times")
    first = spoken.utterances[0].start + max(late, 0.0)
    ages = {n: (times[n] - times["opened"]) / 1000 - first for n in ("tail", "sentence")}
    rates = {
        kind: word_error_rate(spoken.text, heard.joined(kind, name)).rate
        for kind, name in (("delta", "delta"), ("completed", "transcript"))
    }
    log.info("seconds to the first words: %s; word errors: %s", ages, rates)
    assert 0 < ages["sentence"] < LATE / 1000
    assert rates["delta"] <= ERRORS
    assert rates["completed"] <= ERRORS
    assert word_error_rate(heard.joined("completed", "transcript"), text_of(page)).errors == 0
    assert value["text"].split() == text_of(page).split()
    picture(page, "real-live")

    path = tmp_path / "talk.srt"
    path.write_text(downloaded(page, "srt"), encoding="utf-8")
    cues = read_cues(path)
    assert " ".join(" ".join(cue.lines) for cue in cues).split() == value["text"].split()
    length = (value["duration"] + 0.1) * 1000
    assert all(0 <= cue.start < cue.end <= length for cue in cues)
    assert [cue.start for cue in cues] == sorted(cue.start for cue in cues)
    close = [
        min(abs(cue.start / 1000 - late - each.start) for cue in cues) for each in spoken.utterances
    ]
    assert max(close) < 0.7, "each utterance has a cue that begins with it"

    sentence = page.locator(".sentence").last
    sentence.click()
    sync_api.expect(page.locator(".sentence.playing")).to_have_count(1, timeout=LATE)
    page.wait_for_function(
        "(start) => player.currentTime > start + 0.3 && !player.muted && !player.paused",
        arg=float(sentence.get_attribute("data-start")),
    )


@pytest.fixture(scope="module")
def call() -> Recording:
    """A recorded telephone call of two men, and then a woman who reads."""
    parts = (clips.telephone_clip().samples, recordings.prompts("en", duration=12).samples)
    samples = np.concatenate(parts)
    return Recording("call", samples, tuple[Utterance, ...]())


@pytest.mark.parametrize("with_speakers", [True, False])
def test_a_dropped_file_becomes_text(
    server: RunningServer, page: Any, call: Recording, tmp_path: Path, *, with_speakers: bool
) -> None:
    if with_speakers:
        try:
            open_diarizer()
        except MissingExtraError as error:
            pytest.skip(str(error))
    page.goto(server.url)
    page.locator("summary").click()
    page.locator("#speakers").set_checked(with_speakers)
    page.keyboard.press("Escape")
    data = recordings.write(call, tmp_path / "call.wav").read_bytes()
    page.evaluate(DROP, [base64.b64encode(data).decode(), "call.wav"])
    page.wait_for_selector("body[data-state=done]", timeout=4 * LATE)
    value = json.loads(downloaded(page, "json"))
    assert value["duration"] == pytest.approx(len(call.samples) / 16_000, abs=0.1)
    assert value["language"] == "en"
    ending = recordings.prompts("en", duration=12)
    later = [s for s in value["segments"] if s["start"] > value["duration"] - 12.5]
    text = " ".join(segment["text"] for segment in later)
    assert word_error_rate(ending.text, text).rate <= ERRORS
    names = {segment.get("speaker") for segment in value["segments"]}
    if with_speakers:
        assert len(names - {None}) == 3
        assert {segment["speaker"] for segment in later} < names
        colours = page.locator(".speaker").evaluate_all(
            "(all) => all.map((e) => getComputedStyle(e).color)"
        )
        assert len(set(colours)) == 3
        assert page.evaluate("document.documentElement.scrollHeight > innerHeight")
        assert page.evaluate("scrollY") == 0, "a file is read from its start"
    else:
        assert names == {None}
        assert page.locator(".speaker").count() == 0
    picture(page, f"real-file-{with_speakers}")
