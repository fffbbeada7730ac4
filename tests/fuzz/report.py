"""The summary of a run: counts, failures, the slowest cases, and the growth of the memory."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.fuzz.cases import Record

SLOWEST: Final = 10
MAX_CAUSE: Final = 90  # characters
MIN_CASES: Final = 500  # of a process, to measure the growth of its memory
MAX_GROWTH: Final = 100.0  # MiB for 1,000 cases, over the second half of a process's cases


def growth(records: Sequence[Record]) -> float | None:
    """Return the growth of the memory in MiB for 1,000 cases: the largest of the long processes.

    Only the second half of a process's cases counts. Memory that the models take, which a process
    loads at their first use, does not count.
    """
    processes: dict[int, list[float]] = defaultdict(list)
    loading: Counter[int] = Counter()
    for record in records:
        if record.process:
            loading[record.process] += round(record.loading)
            processes[record.process].append(record.memory - loading[record.process])
    slopes = [
        float(np.polyfit(np.arange(len(half)), half, 1)[0]) * 1000
        for series in processes.values()
        if len(series) >= MIN_CASES
        for half in [series[len(series) // 2 :]]
    ]
    return max(slopes, default=None)


def failed(records: Sequence[Record]) -> bool:
    """Return whether a case failed, or the memory grew."""
    slope = growth(records)
    return any(record.failed for record in records) or (slope is not None and slope > MAX_GROWTH)


def summary(records: Sequence[Record], seed: int, seconds: float) -> str:
    """Return the summary as text."""
    lines = [f"{len(records)} cases, seed {seed}, {seconds:.0f} s"]
    for title, kind in (("files", "file"), ("options", "option")):
        counts = Counter(r.verdict for r in records if r.case.startswith(kind))
        lines.append(f"{title}: {_counts(counts)}")
    containers = Counter(record.container for record in records if record.container)
    lines.append(f"containers ({len(containers)}): {_counts(containers)}")
    lines.append("slowest cases:")
    lines += [
        f"  {record.case:<12} {record.seconds:6.1f} s  {record.verdict}, "
        f"{record.audio_seconds:.1f} s of audio; {' | '.join(record.notes)[:150]}"
        for record in sorted(records, key=lambda record: -record.seconds)[:SLOWEST]
    ]
    slope = growth(records)
    shown = "not measured (too few cases)" if slope is None else f"{slope:.1f} MiB for 1,000 cases"
    largest = max(records, key=lambda record: record.peak, default=None)
    lines.append(f"growth of the memory: {shown}")
    if largest is not None:
        lines.append(f"largest peak of a case: {largest.peak:.0f} MiB ({largest.case})")
    lines.append(f"failures: {sum(record.failed for record in records)}")
    lines += [
        f"  {len(cases):4}x {cause}: {', '.join(cases[:4])}" for cause, cases in causes(records)
    ]
    return "\n".join(lines)


def causes(records: Sequence[Record]) -> list[tuple[str, list[str]]]:
    """Return the failures by cause, the most frequent cause first, each with its cases.

    A cause is the first line of the message without its numbers, and the last line of the library
    in the traceback.
    """
    cases: dict[str, list[str]] = defaultdict(list)
    for record in records:
        if record.failed:
            frames = re.findall(r'/(whisperbatch/\S+\.py)", line (\d+)', record.message)
            last = frames[0 if record.verdict in ("crash", "hang") else -1] if frames else ("", "")
            first_line = re.sub(r"\d+", "N", record.message.partition("\n")[0])[:MAX_CAUSE]
            cases[f"{record.verdict} {first_line} {':'.join(last)}".rstrip(": ")].append(
                record.case
            )
    return sorted(cases.items(), key=lambda item: -len(item[1]))


def failure(record: Record, seed: int) -> str:
    """Return a failure with the command that reproduces it."""
    notes = "\n".join(f"    {note}" for note in record.notes)
    message = "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in record.message)
    return (
        f"{record.verdict} {record.case}: {message}\n{notes}\n"
        f"    python -m tests.fuzz --seed {seed} --only {record.case}"
    )


def write_json(path: Path, records: Sequence[Record], seed: int, seconds: float) -> None:
    """Write all records, and the figures of the summary."""
    figures: dict[str, Any] = {"seed": seed, "seconds": seconds, "growth": growth(records)}
    figures["records"] = [asdict(record) for record in records]
    path.write_text(json.dumps(figures, indent=1))


def _counts(counts: "Counter[str]") -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())
