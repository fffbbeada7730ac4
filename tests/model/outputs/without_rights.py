"""Run the command line as a user without rights. A separate program, because it must be root.

    python without_rights.py RECORDING ARGUMENTS...

Transcribes RECORDING as root first, so that everything is imported: the user may not be allowed to
read the directories of Python. Then drops all rights, and runs `whisperbatch ARGUMENTS`.
"""

import os
import sys
import tempfile
from importlib import import_module

NOBODY = 65534

whisperbatch_main = import_module("whisperbatch.cli").main


def run_command(*arguments: str) -> None:
    sys.argv = ["whisperbatch", *arguments]
    try:
        whisperbatch_main()
    except SystemExit as error:
        if error.code:
            raise


def main() -> None:
    """Run the two commands."""
    recording, *arguments = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        fast = ("--model", "tiny.en", "--beam-size", "1", "--quiet", "--resume")
        run_command("transcribe", recording, "-o", directory, "-f", "all", *fast)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    run_command(*arguments)


main()
