"""Properties that are computed once."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from typing_extensions import Self

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801 - as in functools
    """A property that is computed at its first use. The class must have a `__dict__`.

    Before Python 3.12, `functools.cached_property` holds a lock of the class while the value is
    computed: threads wait for the values of other objects, and a fork copies the lock while a
    thread holds it. Here, threads that ask at the same time may compute the value twice.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        """Compute and store the value; later, Python finds the stored value first."""
        if instance is None:
            return self
        value = self._compute(instance)
        instance.__dict__[self._name] = value
        return value
