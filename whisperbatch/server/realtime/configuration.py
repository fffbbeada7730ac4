"""The configuration of a session: what `session.update` changes, and what `asr.live` is given.

    {"type": "transcription",                                 or "realtime"
     "audio": {"input": {
        "format": {"type": "audio/pcm", "rate": 24000},
        "transcription": {"model", "language", "languages", "prompt", "keywords", "delay"},
        "turn_detection": {"type": "server_vad", ...},        null: the client ends the turns
        "noise_reduction": null}},
     "include": ["item.input_audio_transcription.logprobs"]}

A field that is left out stays as it is; null means the default.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar, get_args

import whisperbatch as wb
from whisperbatch.live import Delay, LiveSettings
from whisperbatch.server.errors import ApiError, as_api_error, invalid
from whisperbatch.server.models import Models
from whisperbatch.server.realtime.audio_formats import (
    A_LAW,
    MU_LAW,
    PCM,
    RATES,
    TELEPHONE_RATE,
    AudioFormat,
)

T = TypeVar("T")
Eagerness = Literal["low", "medium", "high", "auto"]
Kind = Literal["transcription", "realtime"]

SILENCES: Final[Mapping[str, float]] = MappingProxyType(
    {"low": 2.0, "medium": 1.0, "high": 0.6, "auto": 1.0}
)
"""Eagerness -> seconds of silence that end a turn. A rule, not a model."""
SENTENCE_SILENCE: Final = 0.4  # seconds that end a turn of semantic_vad after a sentence
SILENCE: Final = 0.5  # seconds that end a turn of server_vad
MAX_SILENCE: Final = 30.0  # seconds
MAX_PADDING: Final = 5.0  # seconds
HYSTERESIS: Final = 0.15  # speech ends at a probability that is lower by this much
MAX_PROMPT: Final = 10_000  # characters; the end of a longer prompt is used
MAX_KEYWORDS: Final = 10_000  # characters of all keywords
WITHOUT_VAD: Final = re.compile(r"gpt-(realtime-whisper|live-transcribe)(-\d{4}-\d\d-\d\d)?")
"""Models of OpenAI without turn detection: their clients end the turns."""

ITEM: Final = "item.input_audio_transcription."
LOGPROBS: Final = f"{ITEM}logprobs"
TAIL: Final = f"{ITEM}tail"
SEGMENTS: Final = f"{ITEM}segments"
WORDS: Final = f"{ITEM}words"
LAG: Final = "input_audio_buffer.lag"
INCLUDES: Final = (LOGPROBS, TAIL, SEGMENTS, WORDS, LAG)
"""What a client may ask for; all but `LOGPROBS` are extensions of this server."""

OF_WORDS: Final = (LOGPROBS, WORDS)
"""What needs the words of the final text."""

INPUT: Final = "session.audio.input"
TRANSCRIPTION: Final = ("model", "language", "languages", "prompt", "keywords", "delay")
VAD_FIELDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "server_vad": ("threshold", "prefix_padding_ms", "silence_duration_ms", "idle_timeout_ms"),
        "semantic_vad": ("eagerness",),
    }
)
WITHOUT_EFFECT: Final = ("type", "create_response", "interrupt_response")
"""Fields of both kinds of turn detection; no response is ever created here."""


@dataclass(frozen=True, slots=True)
class TurnDetection:
    """What ends a turn.

    Attributes:
        kind: "server_vad" or "semantic_vad".
        threshold: probability of speech from which a turn starts; None for the server's.
        padding: seconds before and after speech; None for the server's.
        silence: seconds of silence that end a turn of "server_vad".
        eagerness: of "semantic_vad".
    """

    kind: str = "server_vad"
    threshold: float | None = None
    padding: float | None = None
    silence: float = SILENCE
    eagerness: str = "auto"

    @property
    def turn_silence(self) -> float:
        """Seconds of silence that end a turn."""
        return self.silence if self.kind == "server_vad" else SILENCES[self.eagerness]


FORMAT: Final = AudioFormat()
DELAY: Final = LiveSettings().delay
TURNS: Final = TurnDetection()


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration of a session.

    Attributes:
        kind: of the session, as the client spells it.
        format: of the audio.
        model: as the client names it; "" for the first of the server.
        language: of the speech; None if it is detected.
        languages: that detection chooses from; empty for all.
        prompt: text before the speech; None for the server's.
        keywords: words that may occur.
        delay: as in `Transcriber.live`.
        turns: what ends a turn; None if the client does.
        include: of `INCLUDES`.
    """

    kind: Kind = "transcription"
    format: AudioFormat = FORMAT
    model: str = ""
    language: str | None = None
    languages: tuple[str, ...] = ()
    prompt: str | None = None
    keywords: tuple[str, ...] = ()
    delay: Delay = DELAY
    turns: TurnDetection | None = TURNS
    include: tuple[str, ...] = ()

    @property
    def object_type(self) -> str:
        """The kind of object that a session is, in the form of the protocol."""
        name = "transcription_session" if self.kind == "transcription" else "session"
        return f"realtime.{name}"

    def find_model(self, models: Models) -> str:
        """Return the name of the model that transcribes.

        Raises:
            ApiError: there is no such model.
        """
        try:
            return models.find(self.model or models.names[0]).name
        except ApiError as error:
            error.param = f"{INPUT}.transcription.model"
            raise

    def updated(self, given: object) -> "Configuration":
        """Return the configuration after `session.update`.

        Args:
            given: the field `session` of the event.

        Raises:
            ApiError: a field is wrong.
        """
        session = _object(given, "session")
        kind = _choice(session.get("type") or self.kind, "session.type", get_args(Kind))
        if kind == "transcription":  # sessions with answers have many fields without effect here
            _check_names(session, "session", ("type", "audio", "include", "id", "object"))
        changed = replace(self, kind=kind)
        if "include" in session:
            changed = replace(changed, include=_includes(session["include"]))
        audio = _object(session.get("audio"), "session.audio")
        fields = _object(audio.get("input"), INPUT)
        names = ("format", "transcription", "turn_detection", "noise_reduction")
        _check_names(fields, INPUT, names)
        if "format" in fields:
            changed = replace(changed, format=_format(fields["format"]))
        if "transcription" in fields:
            changed = replace(changed, **_transcription(fields["transcription"]))
        if "turn_detection" in fields:
            changed = replace(changed, turns=self._turns(fields["turn_detection"]))
        elif WITHOUT_VAD.fullmatch(changed.model) and not WITHOUT_VAD.fullmatch(self.model):
            changed = replace(changed, turns=None)
        noise = _object(fields.get("noise_reduction"), f"{INPUT}.noise_reduction")
        _check_names(noise, f"{INPUT}.noise_reduction", ("type", "strength"))
        return changed

    def value(self, model: str, defaults: wb.Options) -> dict[str, Any]:
        """Return the configuration in the form of the protocol.

        Args:
            model: name of the model in use.
            defaults: options of the server.
        """
        return {
            "type": self.kind,
            "audio": {
                "input": {
                    "format": self.format.value,
                    "transcription": {
                        "model": self.model or model,
                        "language": self.language,
                        "languages": list(self.languages),
                        "prompt": self.prompt,
                        "keywords": list(self.keywords),
                        "delay": self.delay,
                    },
                    "turn_detection": self._turn_detection(defaults),
                    "noise_reduction": None,
                }
            },
            "include": list(self.include),
        }

    def keywords_for(self, defaults: wb.Options) -> dict[str, Any]:
        """Return the keywords of `Transcriber.live`.

        Args:
            defaults: options of the server, for what the client does not say.
        """
        turns = self.turns or TURNS
        onset, offset = defaults.vad_onset, defaults.vad_offset
        if turns.threshold is not None:
            onset, offset = turns.threshold, max(turns.threshold - HYSTERESIS, 0.0)
        says_language = self.language is not None or self.languages
        return {
            "sampling_rate": self.format.rate,
            "delay": self.delay,
            "turns": "manual" if self.turns is None else "vad",
            "turn_silence": turns.turn_silence,
            "sentence_silence": SENTENCE_SILENCE if turns.kind == "semantic_vad" else None,
            "language": self.language if says_language else defaults.language,
            "languages": self.languages if says_language else defaults.languages,
            "initial_prompt": defaults.initial_prompt
            if self.prompt is None
            else self.prompt or None,
            "hotwords": ", ".join(self.keywords) or defaults.hotwords,
            "vad_onset": onset,
            "vad_offset": offset,
            "speech_pad": defaults.speech_pad if turns.padding is None else turns.padding,
            "word_timestamps": defaults.word_timestamps
            or any(name in self.include for name in OF_WORDS),
        }

    def _turns(self, given: object) -> TurnDetection | None:
        path = f"{INPUT}.turn_detection"
        if given is None:
            return None
        fields = _object(given, path)
        before = self.turns or TURNS
        kind = _choice(fields.get("type", before.kind), f"{path}.type", tuple(VAD_FIELDS))
        _check_names(fields, path, (*VAD_FIELDS[kind], *WITHOUT_EFFECT))
        turns = before if before.kind == kind else TurnDetection(kind)

        def number(name: str, most: float, default: T, scale: float = 1.0) -> float | T:
            value = fields[name]
            return default if value is None else _number(value, f"{path}.{name}", most, scale)

        if "threshold" in fields:
            turns = replace(turns, threshold=number("threshold", 1.0, None))
        if "prefix_padding_ms" in fields:
            padding = number("prefix_padding_ms", MAX_PADDING, None, 1000.0)
            turns = replace(turns, padding=padding)
        if "silence_duration_ms" in fields:
            silence = number("silence_duration_ms", MAX_SILENCE, SILENCE, 1000.0)
            turns = replace(turns, silence=silence)
        if "eagerness" in fields:
            value = fields["eagerness"] or TURNS.eagerness
            eagerness = _choice(value, f"{path}.eagerness", get_args(Eagerness))
            turns = replace(turns, eagerness=eagerness)
        return turns

    def _turn_detection(self, defaults: wb.Options) -> dict[str, Any] | None:
        turns = self.turns
        if turns is None:
            return None
        if turns.kind == "semantic_vad":
            return {"type": turns.kind, "eagerness": turns.eagerness}
        keywords = self.keywords_for(defaults)
        return {
            "type": turns.kind,
            "threshold": keywords["vad_onset"],
            "prefix_padding_ms": round(keywords["speech_pad"] * 1000),
            "silence_duration_ms": round(turns.silence * 1000),
            "idle_timeout_ms": None,
        }


def as_answer(error: Exception) -> ApiError:
    """Return the answer to an error, with the names of the fields that the client has sent."""
    answer = as_api_error(error, FIELDS)
    if isinstance(error, wb.OptionError):
        answer.param = next((FIELDS[name] for name in error.options if name in FIELDS), None)
    return answer


FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "language": f"{INPUT}.transcription.language",
        "languages": f"{INPUT}.transcription.languages",
        "initial_prompt": f"{INPUT}.transcription.prompt",
        "hotwords": f"{INPUT}.transcription.keywords",
        "delay": f"{INPUT}.transcription.delay",
        "turn_silence": f"{INPUT}.turn_detection.silence_duration_ms",
        "vad_onset": f"{INPUT}.turn_detection.threshold",
        "vad_offset": f"{INPUT}.turn_detection.threshold",
        "speech_pad": f"{INPUT}.turn_detection.prefix_padding_ms",
    }
)
"""Option -> the field that sets it."""


def _transcription(given: object) -> dict[str, Any]:
    """Return the attributes that the field `transcription` sets."""
    path = f"{INPUT}.transcription"
    if given is None:
        plain = Configuration()
        return {name: getattr(plain, name) for name in TRANSCRIPTION}
    fields = _object(given, path)
    _check_names(fields, path, TRANSCRIPTION)
    readers: dict[str, Callable[[object, str], object]] = {
        "model": lambda value, at: _text(value, at) or "",
        "language": _text,
        "languages": _texts,
        "prompt": _prompt,
        "keywords": _texts,
        "delay": lambda value, at: DELAY if value is None else _delay(value, at),
    }
    changes: dict[str, Any] = {
        name: readers[name](value, f"{path}.{name}") for name, value in fields.items()
    }
    languages = changes.get("languages", ())
    if len(languages) == 1 and not changes.get("language"):
        changes |= {"language": languages[0], "languages": ()}
    elif languages:
        changes.setdefault("language", None)
    elif changes.get("language"):
        changes.setdefault("languages", ())
    return changes


def _object(value: object, path: str) -> Mapping[str, Any]:
    """Return an object; null is an object without fields."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid(f"{path} must be an object", path)
    return value


def _check_names(fields: Mapping[str, Any], path: str, known: Sequence[str]) -> None:
    for name in fields:
        if name not in known:
            place = f"{path}.{name[:50]}"
            raise invalid(f"{place} is not a field of this server", place, "unknown_parameter")


def _choice(value: object, path: str, choices: Sequence[str]) -> Any:  # noqa: ANN401 - a literal
    if value not in choices:
        shown = str(value)[:50]
        raise invalid(f"{path} must be one of {', '.join(choices)}, not {shown!r}", path)
    return value


def _delay(value: object, path: str) -> str:
    return str(_choice(value, path, get_args(Delay)))


def _text(value: object, path: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise invalid(f"{path} must be a text", path)
    return value or None


def _prompt(value: object, path: str) -> str | None:
    """Return the end of a prompt; "" is no prompt, also if the server has one."""
    if value is None:
        return None
    return (_text(value, path) or "")[-MAX_PROMPT:]


def _texts(value: object, path: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise invalid(f"{path} must be a list of texts", path)
    if sum(map(len, value)) > MAX_KEYWORDS:
        raise invalid(f"{path} must have at most {MAX_KEYWORDS} characters", path)
    return tuple(each for each in value if each)


def _includes(value: object) -> tuple[str, ...]:
    names = _texts(value, "session.include")
    for name in names:
        _choice(name, "session.include", INCLUDES)
    return tuple(dict.fromkeys(names))


def _number(value: object, path: str, most: float, scale: float) -> float:
    """Return a number of the client, divided by `scale`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid(f"{path} must be a number", path)
    if not 0 <= value <= most * scale:
        raise invalid(f"{path} must be from 0 to {most * scale:g}", path)
    return value / scale


def _format(given: object) -> AudioFormat:
    path = f"{INPUT}.format"
    if given is None:
        return AudioFormat()
    fields = _object(given, path)
    _check_names(fields, path, ("type", "rate"))
    kind = _choice(fields.get("type", PCM), f"{path}.type", (PCM, MU_LAW, A_LAW))
    rate = fields.get("rate")
    if kind != PCM:
        if rate is not None and rate != TELEPHONE_RATE:
            raise invalid(f"{path}.rate must be {TELEPHONE_RATE} for {kind}", f"{path}.rate")
        return AudioFormat(kind, TELEPHONE_RATE)
    if rate is None:
        return AudioFormat()
    if isinstance(rate, bool) or rate not in RATES:
        rates = ", ".join(map(str, RATES))
        raise invalid(f"{path}.rate must be one of {rates}", f"{path}.rate")
    return AudioFormat(kind, int(rate))
