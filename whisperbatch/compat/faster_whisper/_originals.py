"""Functions and classes of faster-whisper that are used as they are.

Programs import tokenizer, feature extractor and small functions from faster-whisper's modules; the
modules of the drop-in return the originals. The methods that decode single windows are originals,
too. All are imported at their first use, because importing faster-whisper takes long.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final


def original(module: str, name: str) -> Any:  # noqa: ANN401 - untyped
    """Return a name of faster-whisper's module, for example of "transcribe"."""
    return getattr(import_module(f"faster_whisper.{module}"), name)


def originals(module: str, *names: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module, which takes these names from faster-whisper's module.

    Args:
        module: `__name__` of the module of the drop-in.
        names: names of functions and classes that do not transcribe.
    """

    def get(name: str) -> Any:  # noqa: ANN401 - untyped
        if name not in names:
            raise AttributeError(f"module {module} has no attribute {name!r}")
        return original(module.rpartition(".")[2], name)

    return get


class OriginalMethod:
    """A method of a class of faster-whisper that has the same name in a class of the drop-in.

    The method gets the object of the drop-in. It calls the methods of this object, also those that
    a subclass of the program replaces, and CTranslate2 through the attribute `model`.

    Args:
        class_name: of faster-whisper's class in its module `transcribe`.
    """

    def __init__(self, class_name: str) -> None:
        self._class_name: Final = class_name
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type) -> Any:  # noqa: ANN401 - untyped
        function = getattr(original("transcribe", self._class_name), self._name)
        return function.__get__(instance, owner)
