"""Write the memory that a model needs, and the memory that is left after `close()`, in bytes."""

import sys

import psutil

import whisperbatch as wb


def main(compute_type: str) -> None:
    """Load a small model first: libraries keep some memory after their first use."""
    process = psutil.Process()
    wb.load("tiny.en", device="cpu", compute_type=compute_type).close()
    before = process.memory_info().rss
    asr = wb.load("base", device="cpu", compute_type=compute_type)
    loaded = process.memory_info().rss - before
    asr.close()
    sys.stdout.write(f"{loaded} {process.memory_info().rss - before}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
