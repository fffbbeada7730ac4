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
from whisperbatch.live.session import LiveSession
from whisperbatch.live.settings import Delay, LiveSettings, Turns

__all__ = [
    "Delay",
    "Failed",
    "Final",
    "Lag",
    "LiveEvent",
    "LiveSession",
    "LiveSettings",
    "Settled",
    "Tail",
    "TurnEnded",
    "TurnStarted",
    "Turns",
]
