"""Arguments that several benchmark programs have."""

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from benchmarks import corpora


def add_recordings(parser: ArgumentParser, default: Sequence[str] = ()) -> None:
    """Add `--recordings`: names of built recordings."""
    parser.add_argument(
        "--recordings",
        nargs="+",
        type=corpora.argument,
        default=default,
        metavar="KIND:LANG:S:SEED",
    )


def require_directories(parser: ArgumentParser, *paths: Path | None) -> None:
    """End the program with an error if the directory of a file to be written does not exist."""
    for path in paths:
        if path and not path.parent.is_dir():
            parser.error(f"{path}: there is no directory {path.parent}; create it first")
