"""Hostile requests: what a connection sends, and the files that it carries."""

import functools
import io
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from random import Random
from typing import Final

import av
import numpy as np

import whisperbatch as wb
from benchmarks import recordings
from benchmarks.recordings import SAMPLING_RATE
from tests.model.forms import BOUNDARY, FORM_TYPE, TRANSCRIPTIONS, field, file, form

BOMB_RATE = 8000  # Hz
BOMB_SECONDS = 3600  # more than the server's longest duration

PLAYLISTS = (
    "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{target}\n#EXT-X-ENDLIST\n",
    '#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI="{target}"\n#EXTINF:1,\n{target}\n',
    "ffconcat version 1.0\nfile '{target}'\nduration 10\n",
    "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio {port} RTP/AVP 0\n",
    '<?xml version="1.0"?><MPD><Period><BaseURL>{target}</BaseURL></Period></MPD>',
    "[playlist]\nFile1={target}\nNumberOfEntries=1\n",
    "<smil><body><audio src='{target}'/></body></smil>",
    "{target}\n",
)


@functools.cache
def speech() -> bytes:
    """Three seconds of speech as WAV."""
    samples = recordings.prompts("en", duration=3).samples
    return wav(samples.astype("<i2").tobytes())


def wav(data: bytes, stated: int | None = None) -> bytes:
    """Return a WAV file whose header states a number of bytes."""
    size = len(data) if stated is None else stated
    form = struct.pack("<HHIIHH", 1, 1, SAMPLING_RATE, 2 * SAMPLING_RATE, 2, 16)
    riff = struct.pack("<4sI4s4sI", b"RIFF", min(size + 36, 2**32 - 1), b"WAVE", b"fmt ", 16)
    return riff + form + struct.pack("<4sI", b"data", size) + data


@functools.cache
def bomb(container: str, codec: str) -> bytes:
    """Return an hour of silence in a small file."""
    file = io.BytesIO()
    with av.open(file, "w", format=container) as output:
        stream = output.add_stream(codec, rate=BOMB_RATE, layout="mono")
        assert isinstance(stream, av.AudioStream)
        for start in range(0, BOMB_SECONDS, 60):
            silence = np.zeros((1, 60 * BOMB_RATE), np.int16)
            frame = av.AudioFrame.from_ndarray(silence, format="s16", layout="mono")
            frame.sample_rate, frame.pts = BOMB_RATE, start * BOMB_RATE
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return file.getvalue()


def media(rng: Random, port: int) -> bytes:
    """Return a hostile file. Playlists name a port of this machine, and files."""
    return rng.choice(UPLOAD_KINDS)(rng, port)


def _bomb(rng: Random, _: int) -> bytes:
    return bomb(*rng.choice((("flac", "flac"), ("ogg", "libopus"))))


def _playlist(rng: Random, port: int) -> bytes:
    target = rng.choice((f"http://127.0.0.1:{port}/a.ts", "file:///etc/passwd", "/etc/passwd"))
    return rng.choice(PLAYLISTS).format(target=target, port=port).encode()


def _false_size(rng: Random, _: int) -> bytes:
    return wav(rng.randbytes(rng.randrange(2000)), stated=2**32 - 1)


def _random(rng: Random, _: int) -> bytes:
    head = rng.choice((b"", b"fLaC", b"OggS", b"\x1aE\xdf\xa3", b"ID3", b"\xff\xfb", b"....ftyp"))
    return head + rng.randbytes(rng.randrange(20_000))


def _cut_upload(rng: Random, _: int) -> bytes:
    return bomb("flac", "flac")[: rng.randrange(5000)]


def _damaged(rng: Random, _: int) -> bytes:
    damaged = bytearray(speech())
    for _ in range(rng.randrange(1, 40)):
        damaged[rng.randrange(200 if rng.random() < 0.5 else len(damaged))] = rng.randrange(256)
    return bytes(damaged)


UPLOAD_KINDS: Final[tuple[Callable[[Random, int], bytes], ...]] = (
    *(_bomb, _playlist, _false_size, _random, _cut_upload, _damaged),
)


NAMES: Final = (
    *("model", "language", "prompt", "response_format", "temperature", "stream", "include[]"),
    *("languages[]", "keywords[]", "timestamp_granularities[]", "chunking_strategy", "file"),
    *("chunking_strategy[type]", "known_speaker_names[]", "max_duration", "unknown", "", "a[b][c]"),
    *(option.name for option in fields(wb.Options)),
)
VALUES: Final = (
    *("nan", "inf", "-1", "1e308", "9" * 5000, "[]", "{}", "null", "true", "\0", "\u202e", "'"),
    *("../../etc/passwd", "file:///etc/passwd", "en", "json", "verbose_json", "whisper-1", "0"),
    *('{"type": "server_vad", "threshold": 1e999}', "[" * 50_000, '{"type":' * 50_000, "a," * 9000),
)
FILE_NAMES: Final = (
    *("../../../../etc/passwd", "/etc/passwd", "C:\\boot.ini", "a\0b.wav", "con", "." * 300),
    *("pipe:0", "http://127.0.0.1/", "concat:/etc/passwd|a", "-i", "%n%s", "a\tb.m3u8", "\u202e"),
)
PATHS: Final = (
    *("/v1/audio/speech", "/v1/models/%2e%2e/%00", "//", "/v1//models", "/%ff", "/metrics/../x"),
    *("/v1/audio/transcriptions/", "/?" + "a=b&" * 5000, "/v1/models/" + "x" * 9000),
)


@dataclass(frozen=True)
class Request:
    """The bytes that a connection sends.

    Attributes:
        kind: of the request.
        pieces: sent one after the other.
        pause: seconds between the pieces.
        leaves: whether the client closes the connection without waiting for the answer.
        may_be_silent: whether the server may close the connection without an answer, because what
            was sent is not HTTP.
    """

    kind: str
    pieces: tuple[bytes, ...]
    pause: float = 0.0
    leaves: bool = False
    may_be_silent: bool = False


def request_of(rng: Random, port: int) -> Request:
    """Return a request. The port is named by files that make players open other addresses."""
    return rng.choice(KINDS)(rng, port)


def head(
    length: int | None,
    headers: Mapping[str, str] | None = None,
    method: str = "POST",
    path: str = TRANSCRIPTIONS,
) -> bytes:
    """Return the head of a request; without a length, the body is chunked."""
    size = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    lines = [f"{method} {path} HTTP/1.1", "host: a", size]
    lines += [
        f"{name}: {value}" for name, value in {"content-type": FORM_TYPE, **(headers or {})}.items()
    ]
    return "\r\n".join((*lines, "", "")).encode("utf-8", "surrogateescape")


def _ordinary(rng: Random, data: bytes | None = None) -> bytes:
    parts = [field("model", "whisper-1")]
    if rng.random() < 0.5:
        parts.append(field("language", "en"))
    if rng.random() < 0.3:
        parts.append(field("stream", "true"))
    parts.append(file(speech() if data is None else data))
    if rng.random() < 0.3:
        rng.shuffle(parts)
    return form(*parts)


def _whole(kind: str, body: bytes, headers: Mapping[str, str] | None = None) -> Request:
    return Request(kind, (head(len(body), headers), body))


def _cut(rng: Random, _: int) -> Request:
    body = _ordinary(rng)
    cut = body[: rng.randrange(len(body))]
    stated = rng.choice((len(body), 10**6, len(cut)))
    return Request("cut body", (head(stated), cut), leaves=rng.random() < 0.5)


def _length(rng: Random, _: int) -> Request:
    body = _ordinary(rng)
    stated = rng.choice(("-1", "abc", "", "1e3", "0x10", "9" * 30, "0", "5", str(10**13), "5, 6"))
    start = head(len(body)).replace(
        b"content-length: %d" % len(body), b"content-length: " + stated.encode()
    )
    return Request("false length", (start, body), may_be_silent=True)


def _boundary(rng: Random, _: int) -> Request:
    kinds = (
        *(
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "application/json",
            "text/plain",
        ),
        *(f"multipart/form-data; boundary={'b' * n}" for n in (1, 71, 300, 9000)),
        *("multipart/form-data; boundary=other", 'multipart/form-data; boundary="', ";;;=", ""),
        *("multipart/form-data; boundary=\u00e9\u20ac", f"multipart/mixed; boundary={BOUNDARY}"),
    )
    return _whole("wrong boundary", _ordinary(rng), {"content-type": rng.choice(kinds)})


def _slow(rng: Random, _: int) -> Request:
    body = _ordinary(rng)
    size = len(body) // rng.randrange(3, 12) + 1
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    if rng.random() < 0.5:
        return Request("slow sender", (head(len(body)), *pieces), rng.uniform(0, 0.15))
    chunks = (b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (*pieces, b""))
    return Request("slow sender", (head(None), *chunks), rng.uniform(0, 0.15))


def _media(rng: Random, port: int) -> Request:
    return _whole("hostile media", _ordinary(rng, media(rng, port)))


def _large_field(rng: Random, _: int) -> Request:
    value = rng.choice(("a ", "\r\n", "\r\n--", "\u00e9")) * rng.randrange(40_000, 400_000)
    return _whole("large field", form(field(rng.choice(NAMES), value), file(speech())))


def _many_parts(rng: Random, _: int) -> Request:
    name = rng.choice(NAMES)
    parts = [
        field(f"{name}{i % rng.randrange(1, 50)}", "x") for i in range(rng.randrange(100, 5000))
    ]
    return _whole("many parts", form(*parts, file(speech())))


def _bad_text(rng: Random, _: int) -> Request:
    junk = rng.randbytes(rng.randrange(1, 200)).replace(b"\n", b"")
    body = _ordinary(rng)
    old = rng.choice(
        (b"whisper-1", b"speech.wav", b'"model"', b"form-data", b"Content-Disposition")
    )
    return _whole("bad text", body.replace(old, junk))


def _large_header(rng: Random, _: int) -> Request:
    body = _ordinary(rng)
    if rng.random() < 0.5:
        name = rng.choice(("authorization", "x-request-id", "cookie", "x-a", "accept-language"))
        start = head(
            len(body), {name: rng.choice(("a", "\u00e9", "=;")) * rng.randrange(1, 100_000)}
        )
        return Request("large header", (start, body), may_be_silent=True)
    return _whole("large header", body.replace(b"speech.wav", b"a" * rng.randrange(100_000)))


def _file_name(rng: Random, _: int) -> Request:
    name = rng.choice(FILE_NAMES)
    return _whole("file name", form(field("model", "whisper-1"), file(speech(), name)))


def _twice(rng: Random, _: int) -> Request:
    parts = [field("model", "whisper-1"), field("language", "en"), file(speech())]
    return _whole("twice", form(*parts, *rng.sample(parts, rng.randrange(1, 4))))


def _method(rng: Random, _: int) -> Request:
    method = rng.choice(
        ("GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "BREW", "POST")
    )
    path = rng.choice((*PATHS, TRANSCRIPTIONS, "/v1/models", "/health", "/ready", "/metrics"))
    return Request("method", (head(0, method=method, path=path),))


def _random_bytes(rng: Random, _: int) -> Request:
    data = rng.randbytes(rng.randrange(1, 3000))
    if rng.random() < 0.5:
        return _whole("random body", data)
    return Request("random bytes", (data + b"\r\n\r\n",), may_be_silent=True)


def _chunks(rng: Random, _: int) -> Request:
    bad = rng.choice(
        (b"zz\r\nabc\r\n", b"-1\r\n\r\n", b"5\r\nabc", b"f" * 40 + b"\r\n", b"3\nabc\n")
    )
    return Request("bad chunks", (head(None), _ordinary(rng)[:0] + bad), may_be_silent=True)


def _values(rng: Random, _: int) -> Request:
    parts = [field(rng.choice(NAMES), rng.choice(VALUES)) for _ in range(rng.randrange(1, 5))]
    return _whole("values", form(field("model", "whisper-1"), *parts, file(speech())))


def _gone(rng: Random, port: int) -> Request:
    data = speech() if rng.random() < 0.5 else media(rng, port)
    body = _ordinary(rng, data)
    return Request("gone", (head(len(body)), body), rng.choice((0.0, 0.2)), leaves=True)


def _after_the_end(rng: Random, _: int) -> Request:
    return _whole("after the end", _ordinary(rng) + rng.randbytes(rng.randrange(2_000_000)))


KINDS: Final[tuple[Callable[[Random, int], Request], ...]] = (
    *(_cut, _length, _boundary, _slow, _media, _media, _large_field, _many_parts, _bad_text),
    *(_large_header, _file_name, _twice, _method, _random_bytes, _chunks, _values, _values, _gone),
    _after_the_end,
)
