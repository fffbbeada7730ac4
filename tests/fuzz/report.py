"""The summary of a run: counts, failures, the slowest cases, and the growth of the memory."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np

from tests.fuzz.cases import Kind, Record

SLOWEST: Final = 10
MAX_CAUSE: Final = 90  # characters
MIN_CASES: Final = 1500  # file cases of a process, to measure the growth of its memory
MAX_GROWTH: Final = 50.0  # MiB for 1,000 file cases, over the second half of them; 16 measured
MIN_LOADS: Final = 20  # models, to measure what each leaves behind
MAX_LEFT: Final = 5.0  # MiB that a model leaves behind; OpenVINO leaves a thread


def growth(records: Sequence[Record]) -> float | None:
    """Return the growth of the memory in MiB for 1,000 file cases: the largest of all processes.

    Only the second half of the file cases of a process counts. Memory that the models take, which a
    process loads at their first use, does not count.
    """
    slopes = []
    for series in _by_process(records, "file"):
        memory = _memory(series)
        if len(memory) >= MIN_CASES:
            half = memory[len(memory) // 2 :]
            slopes.append(float(np.polyfit(np.arange(len(half)), half, 1)[0]) * 1000)
    return max(slopes, default=None)


def growth_of_loading(records: Sequence[Record]) -> float | None:
    """Return the memory in MiB that is left when a model was loaded and freed: the mean."""
    series = _by_process(records, "option")
    loads = sum(record.frees_model for option_cases in series for record in option_cases)
    left = sum(memory[-1] - memory[0] for memory in map(_memory, series))
    return left / loads if loads >= MIN_LOADS else None


def _by_process(records: Sequence[Record], kind: str) -> list[list[Record]]:
    """Return the cases of a kind that each process executed."""
    processes: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        if record.process and record.case.startswith(kind):
            processes[record.process].append(record)
    return list(processes.values())


def _memory(records: Sequence[Record]) -> list[float]:
    """Return the memory of a process after each case, without models that it keeps, in MiB."""
    loading = accumulate(record.loading for record in records)
    return [record.memory - models for record, models in zip(records, loading, strict=True)]


def failed(records: Sequence[Record]) -> bool:
    """Return whether a case failed, or the memory grew."""
    slope, left = growth(records), growth_of_loading(records)
    grown = (slope is not None and slope > MAX_GROWTH) or (left is not None and left > MAX_LEFT)
    return grown or any(record.failed for record in records)


def summary(records: Sequence[Record], seed: int, seconds: float) -> str:
    """Return the summary as text."""
    lines = [f"{len(records)} cases, seed {seed}, {seconds:.0f} s"]
    for kind in get_args(Kind):
        counts = Counter(r.verdict for r in records if r.case.startswith(kind))
        lines.append(f"{kind}s: {_counts(counts)}")
    containers = Counter(record.container for record in records if record.container)
    lines.append(f"containers ({len(containers)}): {_counts(containers)}")
    lines.append("slowest cases:")
    lines += [
        f"  {record.case:<12} {record.seconds:6.1f} s  {record.verdict}, "
        f"{record.audio_seconds:.1f} s of audio; {' | '.join(record.notes)[:150]}"
        for record in sorted(records, key=lambda record: -record.seconds)[:SLOWEST]
    ]
    slope, left = growth(records), growth_of_loading(records)
    largest = max(records, key=lambda record: record.peak, default=None)
    lines.append(f"growth of the memory for 1,000 files: {_shown(slope)}")
    lines.append(f"memory left by each model that was freed: {_shown(left)}")
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
    figures["growth_of_loading"] = growth_of_loading(records)
    figures["records"] = [asdict(record) for record in records]
    path.write_text(json.dumps(figures, indent=1))


def _shown(mebibytes: float | None) -> str:
    return "not measured (too few cases)" if mebibytes is None else f"{mebibytes:.1f} MiB"


def _counts(counts: "Counter[str]") -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())
