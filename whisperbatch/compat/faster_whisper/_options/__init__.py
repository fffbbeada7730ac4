"""faster-whisper's arguments as our options and engine settings."""
