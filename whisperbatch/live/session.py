"""A live session: audio is fed while people speak, and text comes back."""

from collections.abc import AsyncIterator, Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from whisperbatch.live.events import LiveEvent
from whisperbatch.types import Explained

Delay = Literal["minimal", "low", "medium", "high", "xhigh"]
Turns = Literal["vad", "manual"]


class LiveSession(Explained):
    """A live session. Thread-safe. `Transcriber.live` returns a LiveSession.

    Iterate with `for` or `async for`: the events come in order, and end after `close` and the last
    `Final`. The events can be iterated once. At the end of a `with` or `async with` block, the
    session is cancelled, if it has not ended.
    """

    @property
    def duration(self) -> float:
        """Seconds of audio that were fed."""
        raise NotImplementedError

    @property
    def lag(self) -> float:
        """Age in seconds of the oldest speech without text; 0 if there is none."""
        raise NotImplementedError

    def feed(self, samples: bytes | npt.NDArray[np.float32] | npt.NDArray[np.int16]) -> None:
        """Add the next audio. Returns soon: text is decoded by a thread of the session.

        Args:
            samples: mono, shape (n_samples,), at `sampling_rate`; bytes are 16-bit PCM, little
                endian. A sample that is divided between two calls is joined.

        Raises:
            AudioError: the samples are not finite numbers, or have another shape or type. They are
                not added.
            BacklogError: more than `max_lag` seconds wait for their text. The audio was not added.
            ClosedError: the session was closed or cancelled.
        """
        raise NotImplementedError

    def flush(self) -> None:
        """End the current turn now, without waiting for a pause.

        Does nothing if no turn is open.
        """
        raise NotImplementedError

    def clear(self) -> None:
        """Forget the audio of the current turn: it ends without a final text."""
        raise NotImplementedError

    def update(self, **changes: object) -> None:
        """Change options. They hold from the next turn on.

        Args:
            **changes: as the keywords of `Transcriber.live`, except `sampling_rate`. Options that
                are not given stay.

        Raises:
            OptionError: as `Transcriber.live`; nothing is changed.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End the audio. The text of the last turn still comes. Safe to call twice."""
        raise NotImplementedError

    def cancel(self) -> None:
        """End the session without further text; waiting work is dropped. Safe to call twice."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[LiveEvent]:
        raise NotImplementedError

    def __aiter__(self) -> AsyncIterator[LiveEvent]:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cancel()
