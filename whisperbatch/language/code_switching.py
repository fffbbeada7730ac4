"""Where the language changes within a recording: rows in one language each.

Every row is listened to, by the encoder output that its text is decoded from. A row that stands
out, or whose neighbours are in another language, is listened to again piece by piece, and cut
where the language changes:

    rows     [en .98       ][en .71 fr .2  ][fr .99       ]
    pieces                  [en][en][fr][fr]
    rows     [en           ][en    ][fr    ][fr           ]

The languages of rows, and of a row's pieces, are those of the likeliest sequence in which a change
has its price (Viterbi's algorithm), so that one uncertain row or piece does not flip.
"""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from whisperbatch.chunking.split import stretch
from whisperbatch.errors import EngineError
from whisperbatch.language.voting import mean_scores, restrict_to
from whisperbatch.language.windows import score_chunks, score_languages
from whisperbatch.options import Options
from whisperbatch.protocols import Engine, FeatureExtractor
from whisperbatch.rows import End, Item, Row, grouped, padded
from whisperbatch.types import Chunk, LanguageScores, SpeechSpan, to_samples, to_seconds

log = logging.getLogger(__name__)

CHANGE: Final = 1.5  # price of a change, in natural-log probability
FULL: Final = 4.0  # seconds of speech that count in full; less counts by its share
LEAST: Final = 1e-3  # no language is less probable: one row proves nothing
SURE: Final = 0.8  # a row of which its language has less is listened to again
PIECE: Final = to_samples(5.0)  # of a row: longer ones straddle changes, shorter ones mislead


class CodeSwitching:
    """Gives rows their languages, and cuts them where the language changes.

    Rows come with what is heard in them (`Row.heard`), and go on with their `language`. Those that
    are not cut keep their encoder output. A row waits for the two after it. Recordings may be
    interleaved.

    Args:
        engine: listens to pieces.
        extractor: makes their features.
        options: of the run.
        failed: told of a recording, and of the engine's failure to listen to it; or raises it.
    """

    def __init__(
        self,
        engine: Engine,
        extractor: FeatureExtractor,
        options: Options,
        failed: Callable[[int, EngineError], None],
    ) -> None:
        self._failed = failed
        self._engine = engine
        self._extractor = extractor
        self._options = options

    def __call__(self, items: Iterable[Item]) -> Iterator[Item]:
        """The same items, in order; more rows, where some are cut."""
        tracks: dict[int, _Track] = {}
        for item in items:
            if isinstance(item, Row):
                track = tracks.setdefault(item.chunk.recording, _Track())
                track.waiting.append(item)
                if len(track.waiting) > 1:
                    self._label(track, after=item)
                if len(track.waiting) > 2:  # noqa: PLR2004 - the row, and two after it
                    yield from self._settle(track)
                continue
            if isinstance(item, End) and item.recording in tracks:
                track = tracks.pop(item.recording)
                self._label(track, after=None)
                while track.waiting:
                    yield from self._settle(track)
                log.debug("recording %d: %d piece(s) listened to", item.recording, track.pieces)
            yield item

    def _label(self, track: "_Track", after: Row | None) -> None:
        """Give the next row a language, in view of the rows on either side."""
        heard = [self._heard(row) for row in (track.waiting[len(track.labels)], after) if row]
        rows = [one.probabilities for one in heard]
        codes = _best([*rows, {track.latest: 1.0}] if track.latest else rows)
        labels = likeliest(heard, codes, self._options.language_detection_threshold, track.latest)
        track.labels.append(labels[0])
        track.latest = labels[0]

    def _settle(self, track: "_Track") -> Iterator[Row]:
        """The first row that waits: as it is, or in several."""
        row, label = track.waiting.pop(0), track.labels.pop(0)
        after = track.labels[0] if track.labels else None
        beside = {track.beside or label, label, after or label}
        track.beside = label
        own = self._heard(row).probabilities
        if len(beside) == 1 and own.get(label, 0.0) >= SURE:
            parts = [(row, label)]
        else:
            try:
                parts = self._parts(track, row, label, after)
            except EngineError as error:
                self._failed(row.chunk.recording, error)
                return
        for part, language in parts:
            track.before = language
            chunk = replace(part.chunk, index=track.count)
            track.count += 1
            yield replace(part, chunk=chunk, language=language)

    def _parts(
        self, track: "_Track", row: Row, label: str, after: str | None
    ) -> list[tuple[Row, str]]:
        """The row, listened to piece by piece and cut where the language changes."""
        cut = pieces(row.chunk)
        if len(cut) < 2:  # noqa: PLR2004
            return [(row, label)]
        track.pieces += len(cut)
        own = self._heard(row).probabilities
        near = [{code: 1.0} for code in (label, track.before, after) if code]
        heard = [self._among(one) for one in score_chunks(self._engine, self._extractor, cut)]
        threshold = self._options.language_detection_threshold
        labels = likeliest(heard, _best([*near, own]), threshold, track.before, after)
        runs = [
            (language, [(piece, one) for piece, one, _ in group])
            for language, group in groupby(
                zip(cut, heard, labels, strict=True), key=lambda piece: piece[2]
            )
        ]
        if len(runs) == 1:
            return [(row, labels[0])]
        found = []
        for language, run in runs:
            part = stretch(row.chunk, run[0][0].start, run[-1][0].end)
            log.info(
                "recording %d: %.2f s to %.2f s: %s",
                part.recording,
                to_seconds(part.start),
                to_seconds(part.end),
                language,
            )
            made = Row.of(part, self._extractor)
            found.append(
                (replace(made, language_scores=mean_scores([one for _, one in run])), language)
            )
        return found

    def _heard(self, row: Row) -> LanguageScores:
        if row.language_scores is None:
            raise ValueError("rows must have been listened to")
        return self._among(row.language_scores)

    def _among(self, heard: LanguageScores) -> LanguageScores:
        return replace(
            heard, probabilities=restrict_to(heard.probabilities, self._options.languages)
        )


@dataclass(slots=True)
class _Track:
    """A recording on its way through.

    Attributes:
        waiting: rows that have not gone on.
        labels: languages of the first of them.
        latest: the last label given.
        before: the language of what has gone on last.
        beside: the label of the row that it is from.
        count: rows that have gone on.
        pieces: that were listened to.
    """

    waiting: list[Row] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    latest: str | None = None
    before: str | None = None
    beside: str | None = None
    count: int = 0
    pieces: int = 0


def with_language_scores(engine: Engine, rows: Sequence[Row]) -> list[Row]:
    """The rows, each with what is heard in it, and with the encoder output that says so."""
    found: dict[int, Row] = {}
    for group in grouped([row.window for row in rows]):
        batch = [rows[number] for number in group]
        encoded = engine.encode(padded(batch, batch[0].window))
        heard = zip(
            group, score_languages(engine, batch, encoded), engine.split(encoded), strict=True
        )
        found |= {n: replace(rows[n], language_scores=one, encoded=own) for n, one, own in heard}
    return [found[number] for number in range(len(rows))]


def pieces(chunk: Chunk) -> list[Chunk]:
    """A chunk cut at all pauses that leave pieces of some seconds."""
    runs: list[list[SpeechSpan]] = []
    for span in chunk.speech:
        if runs and span.end - runs[-1][0].start <= PIECE:
            runs[-1].append(span)
        else:
            runs.append([span])
    return [stretch(chunk, run[0].start, run[-1].end) for run in runs]


def likeliest(
    heard: Sequence[LanguageScores],
    codes: Sequence[str],
    threshold: float,
    before: str | None = None,
    after: str | None = None,
) -> list[str]:
    """The likeliest sequence of languages.

    Args:
        heard: in order.
        codes: the languages that there may be.
        threshold: what is heard of a place whose best language has less does not count.
        before: the language before the first, if known.
        after: that after the last.
    """
    if not heard:
        return []
    paths: dict[str, tuple[float, tuple[str, ...]]]
    paths = {code: (-CHANGE * (before not in (None, code)), (code,)) for code in codes}
    for number, one in enumerate(heard):
        if number:
            paths = {code: _extended(paths, code) for code in codes}
        scores = _score(one, codes, threshold)
        paths = {code: (worth + scores[code], path) for code, (worth, path) in paths.items()}
    ends = [(worth - CHANGE * (after not in (None, c)), path) for c, (worth, path) in paths.items()]
    return list(max(ends, key=lambda end: end[0])[1])


def _extended(
    paths: Mapping[str, tuple[float, tuple[str, ...]]], code: str
) -> tuple[float, tuple[str, ...]]:
    """The best path to a language, from any other or itself."""
    worth, path = max(
        ((worth - CHANGE * (path[-1] != code), path) for worth, path in paths.values()),
        key=lambda one: one[0],
    )
    return worth, (*path, code)


def _score(heard: LanguageScores, codes: Sequence[str], threshold: float) -> dict[str, float]:
    """Log-probability of each language, by the speech that it is heard in."""
    probabilities = {code: heard.probabilities.get(code, 0.0) for code in codes}
    total = sum(probabilities.values())
    if not total or max(probabilities.values()) < threshold:
        return dict.fromkeys(codes, 0.0)
    weight = min(heard.seconds / FULL, 1.0)
    return {code: weight * math.log(max(p / total, LEAST)) for code, p in probabilities.items()}


def _best(rows: Iterable[Mapping[str, float]]) -> list[str]:
    """The two most probable languages of each row, each once."""
    found: dict[str, None] = {}
    for row in rows:
        found |= dict.fromkeys(sorted(row, key=lambda code: -row[code])[:2])
    return list(found)
