"""Which track is read, whatever the version of PyAV and the metadata of the recording.

PyAV 19 has no `metadata_errors`; older versions raise UnicodeDecodeError without it.
"""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import av
import numpy as np
import pytest
from av.stream import Disposition

import whisperbatch as wb
from tests.unit.media_files import encode, level, pipe, tone
from whisperbatch import AudioError, open_audio
from whisperbatch.audio import decode_audio, list_tracks, random_access
from whisperbatch.audio.random_access import choose
from whisperbatch.audio.track import TrackInfo, open_ignoring_metadata, tags_of
from whisperbatch.compat import faster_whisper
from whisperbatch.options import Options
from whisperbatch.types import SAMPLING_RATE, Notices, Samples, Source, Span, SpanSource

FACTS = {
    "codec": "aac",
    "channels": 2,
    "language": "",
    "title": "",
    "kind": "",
    "is_default": False,
}


def make_tracks(*facts: Mapping[str, object]) -> list[TrackInfo]:
    return [TrackInfo(number, **{**FACTS, **own}) for number, own in enumerate(facts)]  # type: ignore[arg-type]  # facts of each type


class Case(NamedTuple):
    situation: str
    source: str
    tracks: list[TrackInfo]
    heard: dict[int, str]  # "speech" or "sound" of tracks that are not silent
    read: int
    notice: str = ""  # a part of the notices; empty for none


DEFAULT = {"is_default": True}
MONO = {"codec": "pcm_s16le", "channels": 1}

CASES = (
    Case(
        "the default flag is on the second track",
        "SubtitleEdit/subtitleedit#13787",
        make_tracks({"language": "deu"}, {"language": "eng", **DEFAULT}),
        {0: "speech", 1: "speech"},
        1,
    ),
    Case(
        "two default flags",
        "jellyfin/jellyfin-roku#212",
        make_tracks({"language": "rus", **DEFAULT}, {"language": "rus", **DEFAULT}),
        {0: "speech", 1: "speech"},
        0,
        "there is also track 1",
    ),
    Case(
        "the second track is the wanted one, and silence is on the first",
        "SubtitleEdit/subtitleedit#6110",
        make_tracks(DEFAULT, {}),
        {1: "speech"},
        1,
        "track 0: aac, 2 channels, default has no sound",
    ),
    Case(
        "desktop sound on the first track, the microphone on the second",
        "WyattBlue/auto-editor#347",
        make_tracks(DEFAULT, {"title": "Mic"}),
        {0: "sound", 1: "speech"},
        1,
        "has no speech where it was probed",
    ),
    Case(
        "six tracks, of which only the third has sound",
        "obsproject/obs-studio#5109",
        make_tracks(DEFAULT, {}, {}, {}, {}, {}),
        {2: "speech"},
        2,
        "track 2",
    ),
    Case(
        "spatial audio without a decoder beside the usual track",
        "chattocorp/chatto#1602",
        make_tracks({"codec": "", **DEFAULT}, {}),
        {1: "speech"},
        1,
    ),
    Case(
        "spatial audio without a decoder after the usual track",
        "protonemedia/laravel-ffmpeg#538",
        make_tracks(DEFAULT, {"codec": ""}),
        {0: "speech"},
        0,
    ),
    Case(
        "audio description comes first",
        "oakesville/mythling#87, Drvolks/StreamClient#164",
        make_tracks({"kind": "audio description"}, {}),
        {0: "speech", 1: "speech"},
        1,
    ),
    Case(
        "the commentary has the default flag",
        "jellyfin/jellyfin#5179",
        make_tracks({"kind": "commentary", **DEFAULT}, {}),
        {0: "speech", 1: "speech"},
        1,
    ),
    Case(
        "a camera with eight mono tracks, microphones on the third and fourth",
        "mpv-player/mpv#14070, shaka-project/shaka-streamer#52",
        make_tracks(*[MONO] * 8),
        {2: "speech", 3: "speech"},
        2,
        "there is also track 0",
    ),
    Case(
        "two mono tracks, the second empty",
        "mediamicroservices/mm#237",
        make_tracks(MONO, MONO),
        {0: "speech"},
        0,
        "there is also track 1",
    ),
    Case("no track has sound", "", make_tracks({}, DEFAULT), {}, 1, "there is also track 0"),
    Case("no track has speech", "", make_tracks(DEFAULT, {}), {1: "sound"}, 1, "has no sound"),
    Case("no track has a decoder", "", make_tracks({"codec": ""}, {"codec": "", **DEFAULT}), {}, 1),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.situation)
def test_the_track_that_is_read(case: Case) -> None:
    notices = Notices("talk.mkv")

    def probe(number: int) -> tuple[int, bool]:
        return (100 if case.heard.get(number) == "speech" else 0), number in case.heard

    assert choose(case.tracks, probe, notices) == case.read
    text = " ".join(notice.text for notice in notices.all())
    assert case.notice in text
    assert bool(case.notice) == bool(text)
    assert all(notice.kind == "track" for notice in notices.all())


def film(
    path: Path,
    sounds: list[Samples],
    flags: list[Disposition],
    languages: tuple[str, ...] = (),
    titles: tuple[str, ...] = (),
) -> Path:
    """Write a file with a track for each sound."""
    with av.open(str(path), "w") as output:
        streams = [output.add_stream("flac", rate=SAMPLING_RATE, layout="mono") for _ in sounds]
        for number, stream in enumerate(streams):
            stream.disposition = flags[number].value  # type: ignore[assignment]
            if languages:
                stream.metadata["language"] = languages[number]
            if titles:
                stream.metadata["title"] = titles[number]
        for stream, sound in zip(streams, sounds, strict=True):
            for start in range(0, len(sound), 4096):
                whole = np.round(sound[None, start : start + 4096] * 32767).astype(np.int16)
                frame = av.AudioFrame.from_ndarray(whole, format="s16", layout="mono")
                frame.sample_rate, frame.pts = SAMPLING_RATE, start
                output.mux(stream.encode(frame))
            output.mux(stream.encode(None))
    return path


@pytest.fixture(autouse=True)
def _speech_is_a_tone_of_1000_hz(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        random_access, "count_speech", lambda sound: 100 * (level(sound, 1000) > 0.1)
    )


def read(source: Source, track: int | None = None) -> tuple[float, tuple[str, ...]]:
    """Return the level of the speech, and the texts of the notices."""
    with open_audio(source, Options(track=track)) as reader:
        samples = np.concatenate(list(reader.blocks()))
        return level(samples, 1000), tuple(notice.text for notice in reader.notices.all())


NONE = Disposition(0)
SILENCE = np.zeros(5 * SAMPLING_RATE, np.float32)


def test_files_with_tracks(tmp_path: Path) -> None:
    speech, music = tone(1000, 5), tone(300, 5)
    silent_first = film(tmp_path / "a.mkv", [SILENCE, speech], [Disposition.default, NONE])
    heard, notices = read(silent_first)
    assert heard > 0.2
    assert any("no sound" in text for text in notices)
    assert read(silent_first, track=0)[0] < 0.01
    assert read(silent_first, track=0)[1] == ()
    default_second = film(tmp_path / "b.mkv", [music, speech], [NONE, Disposition.default])
    assert read(default_second)[0] > 0.2
    described = film(
        tmp_path / "c.mkv",
        [music, speech],
        [Disposition.visual_impaired | Disposition.default, NONE],
        languages=("eng", "eng"),
    )
    assert read(described)[0] > 0.2


def test_every_way_to_open_a_file_reads_the_same_track(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mkv", [SILENCE, tone(1000, 5)], [Disposition.default, NONE])
    data = path.read_bytes()
    with path.open("rb") as file:
        assert [read(source)[0] > 0.2 for source in (path, data, file)] == [True] * 3
    with open_audio(path) as reader, reader.random_access() as access:
        assert access is not None
        assert level(access.read(1.0, 2.0)[1], 1000) > 0.2
    with open_audio(SpanSource(path, Span(0, 1))) as reader:
        assert reader.track == 1


def test_a_pipe_reads_the_default_track_and_names_the_others(tmp_path: Path) -> None:
    path = film(
        tmp_path / "a.mkv",
        [SILENCE, tone(1000, 5), tone(300, 5)],
        [NONE, Disposition.default, NONE],
        titles=("Game", "Mic", ""),
    )
    with pipe(path.read_bytes()) as file:
        heard, notices = read(file)
    assert heard > 0.2
    [text] = notices
    assert "only track 1 was read" in text
    assert 'track 0: flac, 1 channel, "Game"; track 2: flac, 1 channel' in text


def test_one_track_needs_no_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_access, "count_speech", None)
    path = film(tmp_path / "a.mkv", [tone(1000, 5)], [Disposition.default])
    heard, notices = read(path)
    assert heard > 0.2
    assert notices == ()


def test_speech_that_begins_late_is_found(tmp_path: Path) -> None:
    late = np.concatenate([np.zeros(50 * SAMPLING_RATE, np.float32), tone(1000, 30)])
    path = film(tmp_path / "a.mkv", [0 * late, late], [Disposition.default, NONE])
    with open_audio(path) as reader:
        assert reader.track == 1


def test_tracks_are_listed_in_errors_and_for_programs(tmp_path: Path) -> None:
    path = film(
        tmp_path / "a.mkv",
        [SILENCE, tone(1000, 5)],
        [Disposition.default, Disposition.comment],
        languages=("eng", "ger"),
        titles=("Main", "Director's commentary"),
    )
    with pytest.raises(AudioError, match=r"track=5 does not exist.*track 0: flac, 1 channel, eng"):
        open_audio(path, Options(track=5))
    assert [str(track) for track in list_tracks(str(path))] == [
        'track 0: flac, 1 channel, eng, "Main", default',
        'track 1: flac, 1 channel, ger, "Director\'s commentary", commentary',
    ]


def test_complete_decoding_reads_the_default_track(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mkv", [SILENCE, tone(1000, 5)], [NONE, Disposition.default])
    assert level(decode_audio(path)[0], 1000) > 0.2


MARKED = "MARKED--"
SAMPLES = tone(440, 1.0)
REAL_OPEN: Any = av.open

TITLES = [
    # (bytes, where people met them)
    (b"\xff" + b"x" * 7, "PyAV-Org/PyAV pull request 668: AVI-Mux GUI's tag ends with 0xff"),
    (b"\xffbinary\0", "PyAV-Org/PyAV issue 629: binary artwork in .mov"),
    (b"\x83e\x83X\x83g\x93\xae", "nagadomi/nunif pull request 570: a title in Shift-JIS"),
    (b"Gr\xfc\xdfe  \xe9", "imageio/imageio issue 1059: an old encoding in AVI files"),
    (b"quot\x92ed\x92", "Zulko/moviepy issue 140: quotes of Windows-1252 in .mov"),
    (b"\xd0\xd0\xd0\xd0\xe2\xe2\xe2\xe2", "PyAV-Org/PyAV issues 59 and 197: other scripts, cut"),
    (b"\xed\xb2\x80abcde", "a surrogate that was encoded as UTF-8"),
]
CONTAINERS = [("wav", "pcm_s16le"), ("avi", "pcm_s16le"), ("matroska", "pcm_s16le")]
CONTAINERS += [("mov", "pcm_s16le"), ("flac", "flac")]


def with_title(container: str, codec: str, title: bytes) -> bytes:
    media = encode([SAMPLES], container, codec, rate=16_000, metadata={"title": MARKED})
    assert media.count(MARKED.encode()) == 1
    assert len(title) == len(MARKED)
    return media.replace(MARKED.encode(), title)


def without_the_parameter(file: object, *positional: object, **keywords: Any) -> Any:
    """`open` of PyAV 19: it keeps undecodable bytes as surrogates."""
    if "metadata_errors" in keywords:
        raise TypeError("open() got an unexpected keyword argument 'metadata_errors'")
    try:
        return REAL_OPEN(file, *positional, metadata_errors="surrogateescape", **keywords)
    except TypeError:  # this is PyAV 19
        return REAL_OPEN(file, *positional, **keywords)


@pytest.fixture(params=["as installed", "without metadata_errors"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without metadata_errors":
        monkeypatch.setattr(av, "open", without_the_parameter)


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize(("container", "codec"), CONTAINERS)
@pytest.mark.parametrize(("title", "_source"), TITLES)
def test_metadata_of_any_encoding_changes_no_sample(
    tmp_path: Path, container: str, codec: str, title: bytes, _source: str
) -> None:
    media = with_title(container, codec, title)
    (path := tmp_path / "talk").write_bytes(media)
    for source in (path, media, io.BytesIO(media)):
        with wb.open_audio(source) as reader:
            samples = np.concatenate(list(reader.blocks()))
        np.testing.assert_array_equal(samples, np.round(SAMPLES * 32768) / 32768, strict=False)
    np.testing.assert_array_equal(faster_whisper.decode_audio(str(path)), samples)


@pytest.mark.parametrize("surrogates", ["\udcff\udcfe caf\udce9", " caf"])
def test_tags_can_be_written(surrogates: str) -> None:
    class Stream:
        metadata: ClassVar = {"LANGUAGE": "fra", "title": surrogates, "duration": "00:00:01"}

    tags = tags_of(Stream())  # type: ignore[arg-type]
    assert tags == {"language": "fra", "title": " caf", "duration": "00:00:01"}


Failing = Callable[..., Any]


def failing(message: str) -> Failing:
    def fail(*_: object, **__: object) -> Any:
        raise TypeError(message)

    return fail


def test_another_error_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def fail(*_: object, **keywords: object) -> Any:
        calls.append(keywords)
        raise TypeError("read() takes 1 positional argument but 2 were given")

    monkeypatch.setattr(av, "open", fail)
    with pytest.raises(TypeError, match="read"):
        open_ignoring_metadata(io.BytesIO(), {})
    assert len(calls) == 1


@pytest.mark.parametrize(
    "message",
    [
        "open() got an unexpected keyword argument 'container_options'",
        "open() takes exactly 1 positional argument (2 given)",
        "open() missing 1 required positional argument: 'context'",
    ],
)
def test_a_changed_interface_is_named_with_the_versions_that_work(
    tmp_path: Path, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path := tmp_path / "talk.wav").write_bytes(b"RIFF")
    monkeypatch.setattr(av, "open", failing(message))
    with pytest.raises(wb.AudioError) as caught, wb.open_audio(path):
        pass
    text = str(caught.value)
    assert f"talk.wav: cannot be opened: {message}; av {av.__version__} " in text
    assert "(tested: 14.2 to " in text
    assert "; pip install --force-reinstall 'av>=14.2,<=" in text
