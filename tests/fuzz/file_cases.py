"""Cases about recordings: damaged media, odd sources and arrays, given to each function."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random
from typing import Any, Final

import whisperbatch as wb
from tests.fuzz import models
from tests.fuzz.cases import Case, Environment, Failure, Result, check
from tests.fuzz.inputs import containers, mutations
from tests.fuzz.inputs.arrays import give_array
from tests.fuzz.inputs.sources import GivenSource, give
from tests.fuzz.verdicts import (
    check_chunks,
    check_detection,
    check_segments,
    check_transcript,
    judge,
)

CHOICES: Final[dict[str, tuple[Any, ...]]] = {
    "language": ("en",),
    "word_timestamps": (True,),
    "timestamps": ("tokens",),
    "segments": ("phrase", "chunk"),
    "track": (1, 2),
    "channel": ("left", "right"),
    "clip_timestamps": (((0.0, 0.5),), ((0.2, None),), ((0.1, 0.3), (1.0, 9.0))),
    "vad": (False,),
    "multilingual": (True,),
    "condition_on_previous_text": (True,),
    "temperature": ((0.0, 0.6),),
    "features": ("kaldi",),
    "chunk_length": (2.0,),
    "batch_size": (1, 3),
    "max_silence": (0.1,),
}
"""Options that change how a recording is read and divided."""

Call = Callable[[wb.Transcriber, Any, dict[str, Any], Random], Result]


def run(case: Case, env: Environment) -> Result:
    """Damage a file, and give it to a function."""
    random = case.random()
    model, engine = models.choose_model(random), models.choose_engine(random, env.engine)
    asr = models.load(model, engine)
    env.begin()
    functions, weights = zip(*CALLS, strict=True)
    call: Call = random.choices(functions, weights)[0]
    keywords = _options(random)
    env.note(f"{call.__name__} with {model} on {engine}: {keywords}")
    with ExitStack() as stack:
        source, container = _source(random, env, stack)
        try:
            result = call(asr, source.value, keywords, random)
        except Failure:
            raise
        except BaseException as error:  # noqa: BLE001 - all errors are judged
            result = judge(error, source.raised, (), source.name)
    return Result(result.verdict, result.message, container, result.audio_seconds)


def _options(random: Random) -> dict[str, Any]:
    keywords: dict[str, Any] = {"max_new_tokens": random.choice((5, 10, 20)), "beam_size": 1}
    if random.random() < 0.2:
        keywords["beam_size"] = 2
    for name in random.sample(tuple(CHOICES), random.choice((0, 0, 0, 1, 1, 2))):
        keywords[name] = random.choice(CHOICES[name])
    return keywords


def _source(random: Random, env: Environment, stack: ExitStack) -> tuple[GivenSource, str]:
    if random.random() < 0.12:
        with warnings.catch_warnings():  # numpy warns about the arrays that are made here
            warnings.simplefilter("ignore")
            return give_array(random, env), "array"
    media = containers.build(random)
    env.note(f"media: {media.text}")
    content, names = mutations.mutate(
        media.content, random, lambda: containers.build(random).content
    )
    env.note(f"damage: {', '.join(names) or 'none'}; {len(content)} bytes")
    return give(content, random, env, stack), media.container


def transcribe(
    asr: wb.Transcriber, source: Any, keywords: dict[str, Any], random: Random
) -> Result:
    return check_transcript(asr.transcribe(source, **keywords))


def close_early(
    asr: wb.Transcriber, source: Any, keywords: dict[str, Any], random: Random
) -> Result:
    """Read a part of a stream."""
    stream = asr.stream(source, **keywords)
    segments = [
        segment for _, segment in zip(range(random.choice((0, 1, 3))), stream, strict=False)
    ]
    if random.random() < 0.7:
        stream.close()
        check(next(stream, None) is None, "a closed stream yields a segment")
    check_segments(segments, float("inf"))
    return Result("stream")


def many(asr: wb.Transcriber, source: Any, keywords: dict[str, Any], random: Random) -> Result:
    """Transcribe a recording among good recordings, which must not fail."""
    good = [containers.speech(random, random.uniform(0.5, 2)) for _ in range(random.choice((1, 2)))]
    sources: list[Any] = [*good, source]
    random.shuffle(sources)
    place = next(number for number, item in enumerate(sources) if item is source)
    ordered = random.random() < 0.6
    keywords = {k: v for k, v in keywords.items() if k not in ("track", "channel")}
    given: Any = sources if random.random() < 0.5 else iter(sources)
    items = list(asr.transcribe_many(given, on_error="yield", ordered=ordered, **keywords))
    check(len(items) == len(sources), f"{len(items)} results of {len(sources)} recordings")
    errors = [item for item in items if not isinstance(item, wb.Transcript)]
    for item in items:
        if isinstance(item, wb.Transcript):
            check_transcript(item)
    check(len(errors) <= 1, f"a good recording failed: {errors!r:.300}")
    if ordered and errors:
        check(items[place] is errors[0], f"a good recording failed: {errors!r:.300}")
    return judge(errors[0], (), ()) if errors else Result("transcript")


def many_segments(
    asr: wb.Transcriber, source: Any, keywords: dict[str, Any], random: Random
) -> Result:
    """Stream a recording twice with a good recording; close the stream early in some cases."""
    good = containers.speech(random, 1.0)
    keywords = {k: v for k, v in keywords.items() if k not in ("track", "channel")}
    stream = asr.stream_many([good, source, good], ordered=random.random() < 0.5, **keywords)
    last: dict[int, Any] = {}
    limit = random.choice((1, 2, 1000, 1000))
    for _, (number, item) in zip(range(limit), stream, strict=False):
        last[number] = item
    stream.close()
    if limit < 1000:
        return Result("stream")
    check(set(last) == {0, 1, 2}, f"results of the recordings {sorted(last)}")
    for number in (0, 2):
        check(
            isinstance(last[number], wb.Transcript),
            f"a good recording failed: {last[number]!r:.300}",
        )
    if isinstance(last[1], wb.Transcript):
        return check_transcript(last[1])
    return judge(last[1], (), ())


def detect(asr: wb.Transcriber, source: Any, keywords: dict[str, Any], random: Random) -> Result:
    names = ("track", "channel", "clip_timestamps", "vad", "features")
    kept = {name: value for name, value in keywords.items() if name in names}
    return check_detection(asr.detect_language(source, read_through=random.random() < 0.8, **kept))


def chunk(asr: wb.Transcriber, source: Any, keywords: dict[str, Any], random: Random) -> Result:
    chunks: Iterator[wb.Chunk] = wb.chunk_audio(source, **keywords)
    if random.random() < 0.3:
        next(chunks, None)
        chunks.close()  # type: ignore[attr-defined]  # a generator
        return Result("stream")
    return check_chunks(chunks)


def read(asr: wb.Transcriber, source: Any, keywords: dict[str, Any], random: Random) -> Result:
    """Open a recording, read a part, and perhaps transcribe the open reader."""
    with wb.open_audio(source) as reader:
        if random.random() < 0.5:
            keywords = {k: v for k, v in keywords.items() if k not in ("track", "channel")}
            return check_transcript(asr.transcribe(reader, **keywords))
        for _, block in zip(range(random.choice((0, 1, 100))), reader.blocks(), strict=False):
            check(len(block) > 0, "an empty block")
    return Result("blocks")


CALLS: Final[tuple[tuple[Call, int], ...]] = (
    *(
        (transcribe, 40),
        (many, 15),
        (many_segments, 5),
        (close_early, 8),
        (detect, 14),
        (chunk, 13),
    ),
    (read, 5),
)
