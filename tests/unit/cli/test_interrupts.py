"""Ctrl-C ends the program at once."""

import signal
import subprocess
import sys

PROGRAM = """
import sys, time
from whisperbatch.cli.interrupts import ExitOnSignal

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
