"""The library leaves the settings of malloc alone; the command line may change them (Linux)."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.model.command_line import write_media

CHECK = """
import ctypes, sys
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.malloc.argtypes = [ctypes.c_size_t]
library.free.argtypes = [ctypes.c_void_p]

class Counts(ctypes.Structure):  # struct mallinfo2
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

library.mallinfo2.restype = Counts

def are_mapped(size, count):
    # Return whether malloc takes any of these arrays from the system instead of its heap.
    before = library.mallinfo2().hblks
    arrays = [library.malloc(size) for _ in range(count)]
    mapped = library.mallinfo2().hblks > before
    for array in arrays:
        library.free(array)
    return mapped

def is_unchanged():
    # glibc raises its limit when a mapped array is freed, unless the program has fixed the limit.
    # Several arrays, because the first may fit into a gap of the heap.
    are_mapped(31 << 20, 1)
    return not are_mapped(28 << 20, 8)
"""

LIBRARY = """
import whisperbatch as wb
assert is_unchanged()
with wb.load("tiny.en", engine=sys.argv[2]) as asr:
    assert asr.transcribe(sys.argv[1], beam_size=1, clip_timestamps=((0.0, 5.0),)).segments
    assert is_unchanged()
assert is_unchanged()
"""

COMMAND = """
from whisperbatch.cli.app import app
assert is_unchanged()
app(["models"], standalone_mode=False)
assert not is_unchanged()
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the settings belong to glibc")


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_media(tmp_path_factory.mktemp("malloc")) / "talk.mp3"


def run_python(program: str, *arguments: str) -> None:
    command = [sys.executable, "-c", CHECK + program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param("ctranslate2", marks=pytest.mark.slow),
        "openvino",
        "onnxruntime",
        pytest.param("torch", marks=pytest.mark.torch),
    ],
)
def test_a_transcription_leaves_malloc_settings_alone(engine: str, talk: Path) -> None:
    run_python(LIBRARY, str(talk), engine)


def test_the_command_line_returns_large_arrays_at_once() -> None:
    run_python(COMMAND)
