"""Which language a recording is in, without transcribing it.

source -> voiced windows here and there -> encoder, in batches -> votes -> LanguageDetection
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from whisperbatch.audio import AudioReader
from whisperbatch.chunking import chunks
from whisperbatch.clips import clips
from whisperbatch.features import feature_extractor
from whisperbatch.language import among, decide
from whisperbatch.options import Options
from whisperbatch.protocols import Engine, Vad
from whisperbatch.types import Chunk, LanguageDetection, LanguageWindow, to_seconds
from whisperbatch.vad import open_vad
from whisperbatch.windows import find_windows, listen, short, thinned

log = logging.getLogger(__name__)

NOBODY: Final = LanguageDetection(None, 0.0, {}, reason="nobody speaks")


def detect(engine: Engine, reader: AudioReader, options: Options) -> LanguageDetection:
    """The language of an open recording. It is read through only where it must be.

    Raises:
        AudioError: it cannot be read.
        EngineError: the model failed.
    """
    if found := glimpse(engine, reader, options):
        return found
    windows = thinned(_all(reader, open_vad(options), options), options)
    return _told(engine, windows, options) if windows else NOBODY


def glimpse(engine: Engine, reader: AudioReader, options: Options) -> LanguageDetection | None:
    """As `detect`, if that takes no reading through; otherwise None. `reader` is as before."""
    if not engine.is_multilingual:
        reason = f"model {engine.name} is English-only"
        log.info("%s: en, since %s", reader.name, reason)
        return LanguageDetection("en", 1.0, {"en": 1.0}, reason=reason)
    with reader.excerpts() as excerpts:
        windows = (
            find_windows(excerpts, open_vad(options), options, lambda: reader.closed)
            if excerpts
            else []
        )
    if windows:
        return _told(engine, windows, options)
    why = "no speech where it was listened to" if excerpts else "cannot be read out of order"
    log.info("%s: %s; it is read through", reader.name, why)
    return None


def _told(engine: Engine, windows: Sequence[Chunk], options: Options) -> LanguageDetection:
    """What the windows, at least one, say together."""
    extractor = feature_extractor(options.features, engine.n_mels)
    heard = listen(engine, extractor, windows)
    decision = decide(heard, options)
    found = []
    for window, one in zip(windows, heard, strict=True):
        probabilities = among(one.probabilities, options.languages)
        best = max(probabilities, key=lambda code: probabilities[code])
        start, end = to_seconds(window.start), to_seconds(window.end)
        found.append(LanguageWindow(start, end, best, probabilities[best]))
    ranked = sorted(decision.probabilities.items(), key=lambda item: -item[1])
    return LanguageDetection(
        decision.language, decision.probability, dict(ranked), windows=tuple(found)
    )


def _all(reader: AudioReader, vad: Vad, options: Options) -> Iterator[Chunk]:
    for offset, blocks in clips(reader.blocks(), options.clip_timestamps):
        yield from chunks(vad(blocks), short(options), vad.hop, offset=offset)
