# ruff: noqa: ISC004 - programs of several lines
"""What signals, the exit of the process and forks do to work: each case in a process of its own."""

import subprocess
import sys
import textwrap
import threading

import pytest

from whisperbatch.boundary import as_error
from whisperbatch.threads import in_background, in_new_thread

START = """
import atexit, gc, os, signal, sys, threading, time
from tests.unit.fakes import FakeEngine, noise
import whisperbatch as wb
import warnings
OPTIONS = {"vad": False, "language": "en"}
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # 3.12
def report(broken):
    # an exception in `Thread.start` of Python 3.13, after the thread has begun
    if not isinstance(broken.exc_value, KeyError): sys.__unraisablehook__(broken)
sys.unraisablehook = report
os.environ["TOKENIZERS_PARALLELISM"] = "false"  # old versions print a warning after a fork
asr = wb.Transcriber(FakeEngine(delay={"decode": 0.05}))
def text(): return len(asr.transcribe(noise(60), **OPTIONS).segments) > 0
"""


def run(program: str, *, status: int = 0) -> str:
    """Run a program, check its exit status and that it reports no error, and return its output."""
    result = subprocess.run(
        [sys.executable, "-c", START + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (result.returncode, result.stderr) == (status, "")
    return result.stdout


@pytest.mark.parametrize(
    ("situation", "program", "status", "output"),
    [
        (
            "submissions that wait",
            "s = [asr.submit(noise(90), **OPTIONS) for _ in range(8)]",
            0,
            "",
        ),
        ("a stream that is abandoned", "s = asr.stream(noise(90), **OPTIONS); next(s)", 0, ""),
        (
            "many recordings, abandoned",
            "s = asr.transcribe_many([noise(90)] * 5, **OPTIONS); next(s)",
            0,
            "",
        ),
        ("chunks, abandoned", "s = wb.chunk_audio(noise(90), vad=False); next(s)", 0, ""),
        ("sys.exit with submissions", "s = asr.submit(noise(90), **OPTIONS); sys.exit(3)", 3, ""),
        (
            "exit of a signal handler",
            "signal.signal(signal.SIGALRM, lambda *_: sys.exit(4))\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.1)\n"
            "while True: text()",
            4,
            "",
        ),
        (
            "a with block left by SystemExit",
            "with asr: next(asr.stream(noise(90), **OPTIONS)); sys.exit(5)",
            5,
            "",
        ),
        (
            "a daemon thread that goes on",
            "threading.Thread(target=lambda: [text() for _ in range(100)], daemon=True).start()\n"
            "time.sleep(0.1)\nthreading.excepthook = lambda *_: None",
            0,
            "",
        ),
    ],
)
def test_a_process_ends(situation: str, program: str, status: int, output: str) -> None:
    assert run(program, status=status) == output, situation


NO_NEW_THREADS = (3, 12) <= sys.version_info < (3, 12, 2)
"""These versions start no thread after the end of the main thread: python/cpython#113964."""


@pytest.mark.parametrize(
    ("program", "output"),
    [
        (
            "threading.Thread(target=lambda: print(text(), text(), text())).start()",
            "True True True\n",
        ),
        (
            "s = asr.submit(noise(90), **OPTIONS)\n"
            "threading.Thread(target=lambda: print(len(s.result().segments) > 0)).start()",
            "True\n",
        ),
    ],
    ids=["transcribe", "submit"],
)
def test_a_thread_may_go_on_after_the_main_thread(program: str, output: str) -> None:
    if not NO_NEW_THREADS:
        assert run(program) == output
        return
    told = f"threading.excepthook = lambda broken: print(broken.exc_value)\n{program}"
    assert "Python starts no more threads" in run(told) or run(told) == output


CALLS = {
    "transcribe": "asr.transcribe(noise(60), **OPTIONS)",
    "stream": "list(asr.stream(noise(60), **OPTIONS))",
    "transcribe_many": "list(asr.transcribe_many([noise(60)] * 3, **OPTIONS))",
    "stream_many": "list(asr.stream_many([noise(60)] * 3, **OPTIONS))",
    "submit": "asr.submit(noise(60), **OPTIONS).result()",
    "detect_language": "asr.detect_language(noise(60), vad=False)",
    "open_audio": "wb.open_audio(noise(60)).close()",
    "chunk_audio": "list(wb.chunk_audio(noise(60), vad=False))",
    "blocks": "list(wb.open_audio(noise(60)).blocks())",
}

INTERRUPTED = """
class Limit(Exception): pass
def stop(*_): raise {error}
signal.signal(signal.SIGALRM, stop)
asr.transcribe(noise(5), **OPTIONS)
found = set()
for step in range(10):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.01 * step)
        {call}
        signal.setitimer(signal.ITIMER_REAL, 0)
    except BaseException as error:
        found.add(type(error).__name__)
signal.setitimer(signal.ITIMER_REAL, 0)
gc.collect()  # a traceback may hold the stream in a cycle
end = time.monotonic() + 10
def threads():
    return [t.name for t in threading.enumerate() if "whisperbatch" in t.name]
while (left := threads()) and time.monotonic() < end:
    time.sleep(0.01)
print(*found, left, text())
"""


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "Limit", "TimeoutError", "OSError"])
@pytest.mark.parametrize("call", CALLS)
def test_an_exception_of_a_signal_handler_reaches_the_caller(call: str, error: str) -> None:
    """The exception is unchanged, no thread is left, and the Transcriber works."""
    output = run(INTERRUPTED.format(error=error, call=CALLS[call]))
    assert output in (f"{error} [] True\n", "[] True\n" if call == "open_audio" else "")


def test_an_exception_of_a_signal_handler_is_no_error_of_a_recording() -> None:
    program = """
    from whisperbatch.boundary import as_error
    class Handler:
        def __call__(self, *_): raise ValueError("limit")
    for handler in (Handler(), lambda *_: 1 // 0):
        signal.signal(signal.SIGALRM, handler)
        try:
            try:
                signal.raise_signal(signal.SIGALRM)
            except Exception as error:
                as_error(error, "a.wav")
        except Exception as error:
            print(type(error).__name__)
    """
    assert run(program) == "ValueError\nZeroDivisionError\n"
    assert "bug" in str(as_error(ValueError("x"), "a.wav"))


FORKED = """
before = {before}
if not os.fork():
    try:
        print({call}, flush=True)
    except wb.WhisperBatchError as error:
        print(type(error).__name__, "fork" in str(error), flush=True)
    sys.exit(0)
_, status = os.wait()
asr.close()
print(status)
"""


@pytest.mark.parametrize(
    ("before", "call", "output"),
    [
        ("text()", "text()", "True"),
        ("asr.submit(noise(90), **OPTIONS)", "text()", "True"),
        ("asr.stream(noise(90), **OPTIONS)", "text()", "True"),
        ("asr.submit(noise(90), **OPTIONS)", "before.result()", "EngineError True"),
        ("next(s := asr.stream(noise(90), **OPTIONS))", "next(s)", "EngineError True"),
        ("wb.open_audio(noise(90))", "next(before.blocks())", "AudioError True"),
        ("asr.submit(noise(90), **OPTIONS)", "before.cancel()", "None"),
        (
            "asr.submit(noise(90), **OPTIONS)",
            "asr.submit(noise(9), **OPTIONS).result().text",
            "Sentence",
        ),
        ("asr.submit(noise(90), **OPTIONS)", "asr.close()", "None"),
        ("asr._scheduler._changed.acquire()", "text()", "True"),
    ],
)
def test_a_child_of_a_fork(before: str, call: str, output: str) -> None:
    program = FORKED.format(before=before, call=call)
    if "acquire" in before:
        program = program.replace("asr.close()", "asr._scheduler._changed.release(); asr.close()")
    answer, status = run(program).rsplit("\n", 2)[:2]
    assert answer.startswith(output)
    assert status == "0"


def test_a_signal_within_the_start_of_a_thread_reaches_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CPython's `Thread.start` cannot undo its last step then, because the thread already runs."""
    starting: list[threading.Thread] = []

    def start(thread: threading.Thread) -> None:
        starting.append(thread)
        error = KeyError(thread)
        error.__context__ = TimeoutError("of a signal handler")
        raise error

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(TimeoutError, match="signal handler"):
        in_background(lambda: None)
    assert len(starting) == 1


def test_a_function_in_a_new_thread_returns_its_result_or_raises_its_error() -> None:
    threads: list[threading.Thread] = []

    def compute() -> int:
        threads.append(threading.current_thread())
        return len(threads)

    assert [in_new_thread(compute), in_new_thread(compute)] == [1, 2]
    assert len({*threads, threading.current_thread()}) == 3
    assert not any(thread.is_alive() for thread in threads)
    with pytest.raises(ZeroDivisionError):
        in_new_thread(lambda: 1 // 0)
