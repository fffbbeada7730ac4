"""The settings of a live session, and the options that have no effect in one."""

import inspect
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, get_args

from whisperbatch.errors import OptionError
from whisperbatch.live.ear import TurnRule
from whisperbatch.live.settling import Policy
from whisperbatch.options import OPTION_PARAMETERS, Options, checks, plain, resolve
from whisperbatch.types import to_samples

Delay = Literal["minimal", "low", "medium", "high", "xhigh"]
"""How early text is settled; with "xhigh" only at the end of a turn."""

Turns = Literal["vad", "manual"]
"""What ends a turn: a pause, or `flush` alone."""

POLICIES: Final[dict[str, Policy | None]] = {
    "minimal": Policy(0.3, first=1.0),
    "low": Policy(0.6),
    "medium": Policy(1.0),
    "high": Policy(1.6),
    "xhigh": None,
}

SILENCES: Final = ("turn_silence", "sentence_silence")
REFUSED: Final = (
    *("track", "channel", "clip_timestamps", "max_duration", "vad", "second_opinion"),
    *("second_opinion_threshold", "max_silence", "multilingual", "code_switching_output"),
    *("latin_names", "language_detection_segments", "language_detection_length"),
    *("prefix", "condition_on_previous_text", "timestamps", "max_initial_timestamp"),
    *("readers", "reader_processes"),
    *("diarize", "speaker", "num_speakers", "min_speakers", "max_speakers", "known_speakers"),
    "diarizer",
)
"""Options without effect in a live session: values other than the default are refused."""


@dataclass(frozen=True, kw_only=True)
class LiveSettings:
    """The settings of a live session, beside the options of its final texts.

    Attributes:
        delay: how long text is held back before it is settled: "minimal" 0.3 s, "low" 0.6 s,
            "medium" 1 s, "high" 1.6 s of audio. "xhigh" settles a turn when its final text is
            known.
        turns: "vad" ends a turn at a pause; "manual" only when `flush` is called.
        turn_silence: seconds of silence that end a turn, from 0.1 to 30. Refused with
            `turns="manual"`.
        sentence_silence: the same for a turn whose text ends a sentence; None for `turn_silence`.
            The text must be known within the pause: on a busy machine, `turn_silence` ends the
            turn.
        max_lag: seconds of audio that may wait for their final text, from 10 to 3600; `feed`
            then refuses more.
    """

    delay: Delay = "medium"
    turns: Turns = "vad"
    turn_silence: float = 0.5
    sentence_silence: float | None = None
    max_lag: float = 60.0

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, plain(getattr(self, field.name)))
        checks.choice("delay", self.delay, get_args(Delay))
        checks.choice("turns", self.turns, get_args(Turns))
        checks.number("turn_silence", self.turn_silence, minimum=0.1, maximum=30.0)
        if self.sentence_silence is not None:
            checks.number("sentence_silence", self.sentence_silence, minimum=0.1, maximum=30.0)
        checks.number("max_lag", self.max_lag, minimum=10.0, maximum=3600.0)
        if self.turns == "manual":
            checks.without_effect(self, SILENCES, "with `turns='manual'`")

    @property
    def policy(self) -> Policy | None:
        """When a word is settled; None if only final texts are settled."""
        return POLICIES[self.delay]

    @property
    def rule(self) -> TurnRule:
        """What ends a turn."""
        if self.turns == "manual":
            return TurnRule(None)
        after = self.sentence_silence
        return TurnRule(to_samples(self.turn_silence), None if after is None else to_samples(after))


LIVE_NAMES: Final = tuple(field.name for field in fields(LiveSettings))


def live_options(options: Options | None, **keywords: object) -> Options:
    """Return the options of the final texts of a live session.

    Raises:
        OptionError: an option is unknown or wrong, or has no effect in a live session.
    """
    resolved = resolve(options, **keywords)  # type: ignore[arg-type]  # checked there
    checks.without_effect(resolved, REFUSED, "in a live session")
    return resolved


def split_keywords(keywords: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keywords of `LiveSettings`, and the other keywords."""
    own = {name: value for name, value in keywords.items() if name in LIVE_NAMES}
    return own, {name: value for name, value in keywords.items() if name not in own}


def changed(
    settings: LiveSettings, options: Options, changes: dict[str, object]
) -> tuple[LiveSettings, Options]:
    """Return settings and options with some of them replaced.

    Raises:
        OptionError: as `LiveSettings` and `live_options`, or `sampling_rate` would change.
    """
    own, others = split_keywords(changes)
    if others.get("sampling_rate", options.sampling_rate) != options.sampling_rate:
        raise OptionError("`sampling_rate` cannot change within a session; open another session")
    return replace(settings, **own), live_options(options, **others)


LIVE_PARAMETERS: Final = tuple(
    inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type
    )
    for field in fields(LiveSettings)
) + tuple(parameter for parameter in OPTION_PARAMETERS if parameter.name not in REFUSED)
"""The keywords of `Transcriber.live`."""
