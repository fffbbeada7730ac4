"""Cases about options: one to four options or settings with valid, extreme or wrong values."""

from collections.abc import Callable
from random import Random
from typing import Any, Final

import numpy as np

import whisperbatch as wb
from tests.fuzz import models
from tests.fuzz.cases import Case, Environment, Failure, Result, check
from tests.fuzz.inputs import containers
from tests.fuzz.inputs import option_values as values
from tests.fuzz.verdicts import (
    check_chunks,
    check_detection,
    check_segments,
    check_transcript,
    judge,
)
from whisperbatch.options import DETECTION_OPTIONS

Call = Callable[[wb.Transcriber, Any, dict[str, Any]], Result]


def run(case: Case, env: Environment) -> Result:
    """Call a function with random options and settings."""
    random = case.random()
    action = random.choices(("call", "load"), (85, 15))[0]
    model, engine = models.choose_model(random), models.choose_engine(random, env.engine)
    sound = containers.speech(random, random.uniform(0.5, 3))
    keywords = _cheap(random)
    if action == "load":
        chosen = _choose(values.settings(), random, env)
        if random.random() < 0.4:
            chosen |= _choose(values.options(), random, env)
        # "auto" is one of the two; the threads that a library starts once are no leak
        engines = models.ENGINES if "engine" in chosen else models.ENGINES[:2]
        for name in engines:
            models.load("random", models.installed(name))
        env.begin(frees_model=True)
        return _judged(_load_and_call, models.random_model_folder(), sound, keywords, chosen)
    asr = models.load(model, engine)
    env.begin()
    functions, weights = zip(*CALLS, strict=True)
    call: Call = random.choices(functions, weights)[0]
    env.note(f"{call.__name__} with {model} on {engine}: {keywords}")
    declared = values.options()
    if call is detect and random.random() < 0.9:
        declared = {name: declared[name] for name in DETECTION_OPTIONS}
    chosen = _choose(declared, random, env)
    if random.random() < 0.02 and call is not options:  # Python's own error of a dataclass
        chosen["unknown_option"] = 1
    return _judged(call, asr, sound, keywords, chosen)


def _cheap(random: Random) -> dict[str, Any]:
    """Return options that keep a call short; the chosen options replace them."""
    return {"max_new_tokens": random.choice((5, 10, 20)), "beam_size": random.choice((1, 1, 2))}


def _choose(
    declared: dict[str, values.Declared], random: Random, env: Environment
) -> dict[str, Any]:
    """Return up to four options, of which all but the first have values that are good alone."""
    count = random.choices((1, 2, 3, 4), (50, 25, 15, 10))[0]
    first, *others = random.sample(tuple(declared), min(count, len(declared)))
    chosen = {}
    chosen[first], text = values.value(declared[first], random)
    env.note(text)
    for name in others:
        chosen[name], text = values.good_value(declared[name], random)
        env.note(text)
    return chosen


def _judged(
    call: Callable[[Any, Any, dict[str, Any]], Result],
    target: Any,
    sound: Any,
    keywords: dict[str, Any],
    chosen: dict[str, Any],
) -> Result:
    try:
        return call(target, sound, keywords | chosen)
    except Failure:
        raise
    except BaseException as error:  # noqa: BLE001 - all errors are judged
        return judge(error, (), chosen)


def transcribe(asr: wb.Transcriber, sound: Any, keywords: dict[str, Any]) -> Result:
    transcript = asr.transcribe(sound, **keywords)
    if not {"sampling_rate", "clip_timestamps"} & keywords.keys():
        seconds = len(sound) / 16_000
        check(abs(transcript.duration - seconds) < 1e-3, f"{transcript.duration}, not {seconds} s")
    return check_transcript(transcript)


def options(asr: wb.Transcriber, sound: Any, keywords: dict[str, Any]) -> Result:
    """Give all options in one value."""
    given = wb.Options(**keywords)
    check(given == wb.Options(**keywords), "equal options differ")
    return check_transcript(asr.transcribe(sound, options=given))


def detect(asr: wb.Transcriber, sound: Any, keywords: dict[str, Any]) -> Result:
    cheap = ("beam_size", "max_new_tokens")
    kept = {name: value for name, value in keywords.items() if name not in cheap}
    return check_detection(asr.detect_language(sound, **kept))


def chunk(_: wb.Transcriber, sound: Any, keywords: dict[str, Any]) -> Result:
    return check_chunks(wb.chunk_audio(sound, **keywords))


def many(asr: wb.Transcriber, sound: Any, keywords: dict[str, Any]) -> Result:
    for transcript in asr.transcribe_many(
        [sound, sound[::-1], np.zeros(100, np.float32)], **keywords
    ):
        check_transcript(transcript)
    return Result("transcript")


def close_early(asr: wb.Transcriber, sound: Any, keywords: dict[str, Any]) -> Result:
    with asr.stream(sound, **keywords) as stream:
        check_segments([segment for _, segment in zip(range(1), stream, strict=False)], np.inf)
    return Result("stream")


def _load_and_call(folder: Any, sound: Any, keywords: dict[str, Any]) -> Result:
    """Load a model for one call."""
    return check_transcript(wb.transcribe(sound, model=folder, **keywords))


CALLS: Final[tuple[tuple[Call, int], ...]] = (
    *((transcribe, 55), (options, 10), (detect, 12), (chunk, 12), (many, 5), (close_early, 6)),
)
