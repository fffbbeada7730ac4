import json
import logging
from itertools import permutations

import pytest

from whisperbatch.sections.joining import join_spans
from whisperbatch.types import Notice, Notices, Transcript, merged
from whisperbatch.writers.verbose_json import verbose_json


def _transcript(*notices: Notice) -> Transcript:
    return Transcript((), "en", 1.0, 60.0, "talk.wav", notices=notices)


def test_notices_are_merged_in_any_order() -> None:
    notices = [
        Notice("channels", 0.0, 2.0, "inverted"),
        Notice("channels", 2.5, 4.0, "inverted"),
        Notice("channels", 2.0, 4.0, "left"),
        Notice("time", 3.0, 3.5, "inverted"),
        Notice("channels", 5.1, 6.0, "inverted"),
    ]
    expected = (
        Notice("channels", 0.0, 4.0, "inverted"),
        Notice("channels", 2.0, 4.0, "left"),
        Notice("time", 3.0, 3.5, "inverted"),
        Notice("channels", 5.1, 6.0, "inverted"),
    )
    assert {merged(order) for order in permutations(notices)} == {expected}


def test_the_log_has_one_warning_for_each_kind_and_text(caplog: pytest.LogCaptureFixture) -> None:
    notices = Notices("talk.wav")
    with caplog.at_level(logging.WARNING):
        for second in range(0, 100, 10):
            notices.add("damaged", second, second + 1, "silence replaces damaged audio")
        notices.add("time", 1.0, 2.0, "silence replaces damaged audio")
    assert [record.getMessage() for record in caplog.records] == [
        "talk.wav: silence replaces damaged audio (from 0.00 to 1.00 s)",
        "talk.wav: silence replaces damaged audio (from 1.00 to 2.00 s)",
    ]
    assert len(notices.all()) == 11


def test_the_missing_duration_is_that_of_incomplete_recordings() -> None:
    transcript = _transcript(
        Notice("damaged", 1.0, 2.0, "silence"), Notice("incomplete", 24.0, 60.0, "cut off")
    )
    assert transcript.missing_duration == 36.0
    value = json.loads(verbose_json(transcript))
    assert value["missing_duration"] == 36.0
    assert value["notices"][1] == {
        "kind": "incomplete",
        "start": 24.0,
        "end": 60.0,
        "text": "cut off",
    }


def test_joined_spans_have_each_notice_once() -> None:
    track = Notice("track", 0.0, 0.0, "track 1 has the speech")
    spans = [
        _transcript(track, Notice("channels", 0.0, 300.0, "inverted")),
        _transcript(track, Notice("channels", 290.0, 600.0, "inverted")),
    ]
    assert join_spans(spans).notices == (track, Notice("channels", 0.0, 600.0, "inverted"))
