"""Who speaks when, and where there is speech: analyses of uploads without a Whisper model.

    form ──> fields ──> options ──┐
     └─────> file (Spool) ────────┴─> a place ──> a thread: wb.diarize or wb.chunk_audio ──> answer

POST /v1/audio/diarization         the turns of the speakers, as JSON or RTTM
POST /v1/audio/vad                 the stretches of speech, in seconds
POST /v1/audio/speech/timestamps   the same in the form of speaches: in milliseconds

The machine decides how many recordings are analysed at a time; the others wait on the disk. Long
recordings leave a place to short ones. When the client is gone, the file is closed, so that the
thread ends where it reads next. Its place is free when the thread has ended.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, BinaryIO, Final, TypeVar, cast

from starlette.requests import Request
from starlette.responses import Response

import whisperbatch as wb
from whisperbatch.audio import known_duration
from whisperbatch.huggingface import parse_parameters
from whisperbatch.options import documented_fields
from whisperbatch.runtimes.machine import available_cpus
from whisperbatch.server.admission import Admission
from whisperbatch.server.downloads import URL, Downloads
from whisperbatch.server.errors import invalid
from whisperbatch.server.fields import TYPES, Values, about, as_number, within_limits
from whisperbatch.server.formats import as_json
from whisperbatch.server.models import Models
from whisperbatch.server.records import current, note_audio
from whisperbatch.server.settings import ServerSettings
from whisperbatch.server.speakers import NAMES, REFERENCES, known_speakers
from whisperbatch.server.submitting import before, client_of, disconnect, timed_out
from whisperbatch.server.uploads import FILE, Form, Spool, received
from whisperbatch.submissions import is_short
from whisperbatch.types import to_seconds
from whisperbatch.writers import render

T = TypeVar("T")

SOUND: Final = ("track", "channel", "max_duration")
"""Options of both analyses."""
SPEAKERS: Final = ("speaker", "num_speakers", "min_speakers", "max_speakers", *SOUND)
SPEECH: Final = (
    *("vad_onset", "vad_offset", "min_speech_duration", "min_silence_duration", "speech_pad"),
    *("max_speech_duration", *SOUND),
)
TIMESTAMPS: Final[Mapping[str, tuple[str, float]]] = MappingProxyType(
    {
        "threshold": ("vad_onset", 1),
        "neg_threshold": ("vad_offset", 1),
        "min_speech_duration_ms": ("min_speech_duration", 1000),
        "min_silence_duration_ms": ("min_silence_duration", 1000),
        "speech_pad_ms": ("speech_pad", 1000),
        "max_speech_duration_s": ("max_speech_duration", 1),
    }
)
"""Field of speaches -> option, and the field's unit in an option's unit."""
BELOW: Final = 0.15  # `neg_threshold` below `threshold`, if only the latter is given


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of speech, in seconds."""

    start: float
    end: float


class Analyses:
    """Answers requests for speakers and for speech.

    Args:
        settings: of the server.
        models: load the diarizer.
        admission: the limit of requests.
        downloads: read recordings that are named by a URL.
    """

    def __init__(
        self, settings: ServerSettings, models: Models, admission: Admission, downloads: Downloads
    ) -> None:
        self._settings, self._models, self._admission = settings, models, admission
        self._defaults = settings.endpoint_options()
        self._downloads = downloads
        places = max(available_cpus() // 2, 2)
        self._all = asyncio.Semaphore(places)
        self._long = asyncio.Semaphore(places - 1)

    async def diarization(self, request: Request) -> Response:
        """Return who speaks when in a recording.

        Args:
            request: with a form.

        Returns:
            `duration` and `segments` with `start`, `end` and `speaker`; or the lines of RTTM.

        Raises:
            ApiError: the request is wrong, or the server cannot work on it.
            WhisperBatchError: the recording cannot be analysed.
        """
        return await self._answer(request, self._find_speakers)

    async def vad(self, request: Request) -> Response:
        """Return the stretches of speech of a recording: a list with `start` and `end`, in seconds.

        Args:
            request: with a form.

        Raises:
            ApiError, WhisperBatchError: see `diarization`.
        """
        return await self._answer(request, self._find_speech)

    async def timestamps(self, request: Request) -> Response:
        """Return the stretches of speech in the form of speaches, in milliseconds.

        Args:
            request: with a form that has speaches' fields.

        Raises:
            ApiError, WhisperBatchError: see `diarization`.
        """
        return await self._answer(request, self._find_timestamps)

    async def _answer(
        self, request: Request, work: Callable[[Form], Awaitable[Response]]
    ) -> Response:
        """Receive a form, and work on it while the client waits."""
        settings = self._settings
        async with AsyncExitStack() as stack:
            stack.enter_context(self._admission.admitted(client_of(request)))
            directory, max_bytes = settings.upload_directory, int(settings.max_upload)
            form = Form.of(request.headers, directory, max_bytes)
            stack.callback(form.close)
            async for _ in received(form, request, settings.upload_limits):
                pass
            gone = asyncio.ensure_future(disconnect(request.receive))
            stack.callback(gone.cancel)
            await self._downloads.complete(form, gone)
            response = await before(gone, work(form), settings.max_time)
            if response is None:
                raise timed_out(settings.max_time)
            return response
        raise AssertionError  # the block above returns or raises

    async def _find_speakers(self, form: Form) -> Response:
        values = Values(form.fields)
        response_format = values.choice("response_format", ("json", "rttm")) or "json"
        voices = known_speakers(values.texts(NAMES), values.texts(REFERENCES))
        base = replace(self._defaults, diarize=True)
        options = self._parse(form, values.options(TYPES), base, SPEAKERS, voices)
        _check_rest(values)
        spool = _file_of(form)
        if options.speaker == "voice":
            await self._models.load_diarizer(options.diarizer)
        found = await self._run(spool, options, _diarize)
        note_audio(found.duration)
        if response_format == "rttm":
            return Response(render(found, "rttm"), media_type="text/plain")
        segments = [
            {"start": round(turn.start, 3), "end": round(turn.end, 3), "speaker": turn.speaker}
            for turn in found.turns
        ]
        return _json({"duration": round(found.duration, 3), "segments": segments})

    async def _find_speech(self, form: Form) -> Response:
        values = Values(form.fields)
        options = self._parse(form, values.options(TYPES), self._speech_defaults(), SPEECH)
        _check_rest(values)
        found = await self._run(_file_of(form), options, _find_stretches)
        return _json([{"start": round(s.start, 3), "end": round(s.end, 3)} for s in found])

    async def _find_timestamps(self, form: Form) -> Response:
        values = Values(form.fields)
        given = {
            option: as_number(name, text) / unit
            for name, (option, unit) in TIMESTAMPS.items()
            if (text := values.text(name)) is not None
        }
        if "vad_onset" in given:
            given.setdefault("vad_offset", max(given["vad_onset"] - BELOW, 0.0))
        longest = wb.Options().max_speech_duration
        joined = given.get("max_speech_duration", longest) >= longest
        if joined:  # the library cuts longer stretches
            given.pop("max_speech_duration", None)
        options = self._parse(form, given, self._speech_defaults(), SPEECH)
        _check_rest(values)
        found = await self._run(_file_of(form), options, _find_stretches)
        if joined:
            found = join(found)
        return _json([{"start": round(s.start * 1e3), "end": round(s.end * 1e3)} for s in found])

    def _speech_defaults(self) -> wb.Options:
        return wb.Options(**{name: getattr(self._defaults, name) for name in SPEECH})

    def _parse(
        self,
        form: Form,
        given: Mapping[str, object],
        base: wb.Options,
        names: Sequence[str],
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> wb.Options:
        """Return the options that the fields set, within the limits of the server.

        Args:
            form: of the request.
            given: option -> its value, or this value as text.
            base: options of a request without fields.
            names: the options that have an effect.
            more: further options.

        Raises:
            ApiError: a field is wrong, or has no effect.
        """
        for name in given:
            if name not in names:
                raise invalid(
                    f"{name} has no effect on this path; the fields are {', '.join(names)}",
                    name,
                    "unknown_parameter",
                )
        try:
            options = replace(parse_parameters(given, base).options, **more)
        except wb.OptionError as error:
            raise about(error, form.fields) from error
        return within_limits(options, self._defaults, self._settings.max_beams)

    async def _run(
        self, spool: Spool, options: wb.Options, work: Callable[[Spool, wb.Options], T]
    ) -> T:
        """Return the result of a function that runs in a thread, when there is a place."""
        file = cast("BinaryIO", spool.open())
        length = await asyncio.to_thread(known_duration, file, options)
        if record := current():
            self._admission.check_audio(record.client, length or 0.0)
        note_audio(length or 0.0)
        # other diarizers keep the whole recording in memory
        is_light = is_short(length) and options.diarizer == wb.Options().diarizer
        async with nullcontext() if is_light else self._long, self._all:
            running = asyncio.ensure_future(asyncio.to_thread(work, spool, options))
            try:
                return await asyncio.shield(running)
            finally:  # the place is free when the thread has ended
                await asyncio.wait({running})


def _file_of(form: Form) -> Spool:
    if form.file is None:
        raise AssertionError  # `Downloads.complete` has checked it
    return form.file


def _check_rest(values: Values) -> None:
    """Refuse fields that have not been used. `model`, which speaches' clients send, is ignored."""
    values.text("model")
    values.check_all_used()


def _diarize(spool: Spool, options: wb.Options) -> wb.Diarization:
    """Return who speaks when. Runs in a thread."""
    with wb.open_audio(cast("BinaryIO", spool.open()), options) as reader:
        return wb.diarize(
            reader,
            speaker=options.speaker,
            num_speakers=options.num_speakers,
            min_speakers=options.min_speakers,
            max_speakers=options.max_speakers,
            known_speakers=options.known_speakers,
            diarizer=options.diarizer,
            track=options.track,
            channel=options.channel,
        )


def _find_stretches(spool: Spool, options: wb.Options) -> list[Stretch]:
    """Return the stretches of speech. Runs in a thread."""
    chunks = wb.chunk_audio(cast("BinaryIO", spool.open()), options=options)
    return [
        Stretch(to_seconds(span.start), to_seconds(span.end))
        for chunk in chunks
        for span in chunk.speech
    ]


def join(stretches: Sequence[Stretch]) -> list[Stretch]:
    """Return stretches that touch each other as one."""
    if not stretches:
        return []
    starts = [stretches[0], *(b for a, b in pairwise(stretches) if b.start > a.end)]
    ends = [*(a for a, b in pairwise(stretches) if b.start > a.end), stretches[-1]]
    return [Stretch(a.start, b.end) for a, b in zip(starts, ends, strict=True)]


def _json(value: object) -> Response:
    return Response(as_json(value), media_type="application/json")


def _form(names: Mapping[str, str]) -> dict[str, Any]:
    """Return a form's description for the OpenAPI page; name -> meaning."""
    file = {"type": "string", "format": "binary", "description": "The recording."}
    texts = {**names, URL: "In place of file: a URL that the server allows."}
    fields = {name: {"type": "string", "description": text} for name, text in texts.items()}
    schema = {"type": "object", "properties": {FILE: file, **fields}}
    body = {"required": True, "content": {"multipart/form-data": {"schema": schema}}}
    return {"requestBody": body}


_OPTIONS: Final = documented_fields(wb.Options)
DIARIZATION_FORM: Final = _form(
    {name: _OPTIONS[name] for name in SPEAKERS}
    | {
        f"{NAMES}[]": "Names of speakers.",
        f"{REFERENCES}[]": "The voice of each: 2 to 10 s of speech in a data: URL with base64.",
        "response_format": "json or rttm.",
    }
)
VAD_FORM: Final = _form({name: _OPTIONS[name] for name in SPEECH})
TIMESTAMPS_FORM: Final = _form({name: _OPTIONS[option] for name, (option, _) in TIMESTAMPS.items()})
