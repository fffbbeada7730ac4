"""Live transcription: text while people speak."""

from whisperbatch.live.events import (
    Failed,
    Final,
    Lag,
    LiveEvent,
    Settled,
    Tail,
    TurnEnded,
    TurnStarted,
)
from whisperbatch.live.session import Delay, LiveSession, Turns

__all__ = [
    "Delay",
    "Failed",
    "Final",
    "Lag",
    "LiveEvent",
    "LiveSession",
    "Settled",
    "Tail",
    "TurnEnded",
    "TurnStarted",
    "Turns",
]
