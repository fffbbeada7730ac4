"""Give damaged media, random options, requests, runs and live sessions to whisperbatch.

    python -m tests.fuzz                           all cases
    python -m tests.fuzz --files 200 --options 100 --requests 60 --runs 40 --sessions 60
    python -m tests.fuzz --seed 7 --only file-93   one case again, with its description

The seed, the kind and the number determine a case. The exit status is 1 if a case failed.
"""

import argparse
import os
import sys
import time
from pathlib import Path

from tests.fuzz import driver, models, report, request_cases, session_cases
from tests.fuzz.cases import Case, Record

SEED = 19


def main() -> int:
    """Run the program, and return the exit status."""
    arguments = _arguments()
    names = arguments.only or [
        *(f"file-{number}" for number in range(arguments.first, arguments.files)),
        *(f"option-{number}" for number in range(arguments.first, arguments.options)),
        *(f"request-{number}" for number in range(arguments.first, arguments.requests)),
        *(f"run-{number}" for number in range(arguments.first, arguments.runs)),
        *(f"session-{number}" for number in range(arguments.first, arguments.sessions)),
    ]
    cases = [Case.named(arguments.seed, name) for name in names]
    requests = [case for case in cases if case.kind == "request"]
    sessions = [case for case in cases if case.kind == "session"]
    calls = [case for case in cases if case.kind not in {"request", "session"}]
    settings = driver.Settings(
        limit=arguments.limit,
        workers=min(arguments.workers, len(calls)),
        engine=arguments.engine or "",
    )
    models.random_model_folder()
    start = time.monotonic()
    done = 0

    def show(record: Record) -> None:
        nonlocal done
        done += 1
        if record.failed:
            _print(report.failure(record, arguments.seed))
        elif arguments.only or record.case == "session-server":
            _print("\n".join((f"{record.verdict} {record.case}: {record.message}", *record.notes)))
        if not done % 100:
            _print(f"{done} of {len(cases)} cases in {time.monotonic() - start:.0f} s")

    records = driver.run(calls, settings, show) + request_cases.run(requests, show)
    records += session_cases.run(sessions, show)
    seconds = time.monotonic() - start
    _print(report.summary(records, arguments.seed, seconds))
    if arguments.json:
        report.write_json(arguments.json, records, arguments.seed, seconds)
    return int(report.failed(records))


def _arguments() -> argparse.Namespace:
    description, _, details = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        "python -m tests.fuzz",
        description=description,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=SEED, help="of all cases (%(default)s)")
    parser.add_argument("--files", type=int, default=5000, help="file cases (%(default)s)")
    parser.add_argument("--options", type=int, default=2000, help="option cases (%(default)s)")
    parser.add_argument("--requests", type=int, default=2000, help="requests (%(default)s)")
    parser.add_argument("--runs", type=int, default=200, help="random runs (%(default)s)")
    parser.add_argument("--sessions", type=int, default=500, help="live sessions (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first case of a kind")
    parser.add_argument("--only", action="append", metavar="CASE", help="this case, as file-93")
    parser.add_argument("--engine", choices=models.ENGINES, help="of all cases; otherwise mixed")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--limit", type=float, default=driver.LIMIT, help="seconds for a case")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all records")
    return parser.parse_args()


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
