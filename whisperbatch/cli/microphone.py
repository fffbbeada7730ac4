"""The microphone of this machine, through the package sounddevice (extra `live`)."""

from collections.abc import Callable, Iterator
from threading import Event
from types import ModuleType
from typing import Any, Final

from typing_extensions import Self

from whisperbatch.boundary import describe
from whisperbatch.dependencies import import_failure
from whisperbatch.errors import AudioError, MissingExtraError, OptionError
from whisperbatch.text import counted, shown
from whisperbatch.types import SAMPLING_RATE

BLOCK: Final = 0.1  # seconds of audio that are read at a time
INSTEAD: Final = (
    "or let another program record: "
    "arecord -q -f S16_LE -r 16000 -t raw | whisperbatch live --raw 16000"
)
"""How to speak without sounddevice: the end of messages."""


class Microphone:
    """A microphone, which records until it is closed.

    Args:
        device: number or a part of the name; "" for the default device.

    Attributes:
        name: of the device.
        sampling_rate: of its samples, in Hz.

    Raises:
        AudioError: there is no microphone, or it cannot be opened.
        MissingExtraError: sounddevice or its library is not installed.
        OptionError: there is no such device, or there are several.
    """

    def __init__(self, device: str = "") -> None:
        self._package = _sounddevice()
        found = _find(self._package, device)
        self._number = int(found["index"])
        self.name = str(found["name"])
        self.sampling_rate = self._usable_rate(int(found["default_samplerate"]))
        self._stream: Any = None

    def _usable_rate(self, own_rate: int) -> int:
        """Return Whisper's rate if the device has it; otherwise the device's own rate."""
        try:
            self._package.check_input_settings(
                device=self._number, channels=1, dtype="int16", samplerate=SAMPLING_RATE
            )
        except Exception:  # noqa: BLE001 - PortAudioError, whose message depends on the driver
            return own_rate
        return SAMPLING_RATE

    def __enter__(self) -> Self:
        try:
            self._stream = self._package.RawInputStream(
                samplerate=self.sampling_rate,
                device=self._number,
                channels=1,
                dtype="int16",
                latency="high",  # samples wait here while the session is busy
            )
            self._stream.start()
        except Exception as error:
            raise AudioError(
                f"the microphone {shown(self.name)} cannot be opened: {describe(error)}; "
                f"--list-devices lists all; {INSTEAD}"
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            self._stream.close()

    def blocks(self, ended: Event, on_lost: Callable[[], None]) -> Iterator[bytes]:
        """Yield 16-bit mono samples as they are spoken, until the event is set.

        Args:
            ended: ends the recording.
            on_lost: called if samples were lost because this process did not read them in time.

        Raises:
            AudioError: the device was removed, or another error of the device.
        """
        frames = int(BLOCK * self.sampling_rate)
        while not ended.is_set():
            try:
                samples, lost = self._stream.read(frames)
            except Exception as error:
                raise AudioError(f"the microphone has stopped: {describe(error)}") from error
            if lost:
                on_lost()
            yield bytes(samples)


def list_devices() -> list[str]:
    """Return a line for each microphone: number, name, channels, rate.

    Raises:
        AudioError: there is no microphone.
        MissingExtraError: sounddevice or its library is not installed.
    """
    package = _sounddevice()
    default = _default(package)
    lines: list[str] = []
    for device in _microphones(package):
        channels = counted(range(device["max_input_channels"]), "channel")
        mark = ", default" * (device["index"] == default)
        rate = f"{device['default_samplerate']:.0f} Hz"
        lines.append(f"{device['index']:>3}  {device['name']} ({channels}, {rate}{mark})")
    return lines


def _find(package: ModuleType, device: str) -> Any:  # noqa: ANN401 - sounddevice has no types
    microphones = _microphones(package)
    if not device:
        default = _default(package)
        return next((each for each in microphones if each["index"] == default), microphones[0])
    wanted = device.strip().lower()
    exact = [each for each in microphones if wanted in (str(each["index"]), each["name"].lower())]
    found = exact or [each for each in microphones if wanted in each["name"].lower()]
    if len(found) == 1:
        return found[0]
    problem = "several microphones have this name" if found else "there is no such microphone"
    raise OptionError(
        f"--input-device {shown(device)}: {problem}; --list-devices lists their numbers"
    )


def _microphones(package: ModuleType) -> list[Any]:
    """Return the devices that can record.

    Raises:
        AudioError: there is none.
    """
    found = [device for device in package.query_devices() if device["max_input_channels"] > 0]
    if not found:
        raise AudioError(f"this machine has no microphone; connect one, {INSTEAD}")
    return found


def _default(package: ModuleType) -> int:
    """Return the number of the default microphone; -1 if there is none."""
    return int(package.default.device[0])


def _sounddevice() -> ModuleType:
    try:
        import sounddevice  # noqa: PLC0415 - an extra
    except ImportError as error:
        message = import_failure(error, "pip install 'whisperbatch[live]'")
        raise MissingExtraError(
            f"the microphone needs sounddevice: {message}; {INSTEAD}"
        ) from error
    except OSError as error:  # sounddevice brings this library on Windows and macOS only
        raise MissingExtraError(
            "sounddevice does not find the library PortAudio: apt-get install libportaudio2; "
            f"{INSTEAD}"
        ) from error
    return sounddevice  # type: ignore[no-any-return]  # a module without types
