"""The status of a model that loads; and Ctrl-C, which ends the program at once."""

import logging
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from whisperbatch.cli.printing import loading_status

LOG = logging.getLogger("whisperbatch")


@pytest.fixture(autouse=True)
def _info_level() -> Iterator[None]:
    level = LOG.level
    LOG.setLevel(logging.INFO)
    yield
    LOG.setLevel(level)


def test_progress_records_replace_the_status_which_is_removed_at_the_end() -> None:
    shown: list[str] = []
    with loading_status("base", shown.append):
        logging.getLogger("whisperbatch.engines").info("compiling", extra={"progress": True})
        LOG.info("model base on cpu")  # not a progress record
    LOG.info("after the context", extra={"progress": True})
    assert shown == ["loading model base ...", "compiling", ""]


def test_the_status_is_removed_after_an_error() -> None:
    shown: list[str] = []
    with pytest.raises(RuntimeError), loading_status("base", shown.append):
        raise RuntimeError
    assert shown[-1] == ""
    assert not any(type(handler).__name__ == "_ProgressHandler" for handler in LOG.handlers)


PROGRAM = """
import sys, time
from whisperbatch.cli.printing import ExitOnSignal

def say_goodbye():
    print("stopped", file=sys.stderr, flush=True)
    time.sleep({seconds})  # no program reads the output

with ExitOnSignal(say_goodbye):
    print("ready", file=sys.stderr, flush=True)
    time.sleep(600)
"""


def start(seconds: float) -> "subprocess.Popen[str]":
    program = PROGRAM.format(seconds=seconds)
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    assert line_of(process) == "ready"
    return process


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stderr
    return process.stderr.readline().strip()


def test_ctrl_c_says_goodbye() -> None:
    process = start(0)
    process.send_signal(signal.SIGINT)
    assert line_of(process) == "stopped"
    assert process.communicate()[1] == ""
    assert process.returncode == 130


def test_a_second_signal_does_not_wait_for_the_reader_of_the_output() -> None:
    process = start(600)
    process.send_signal(signal.SIGINT)
    assert line_of(process) == "stopped"
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
