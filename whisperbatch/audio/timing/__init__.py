"""The time of each frame in the recording, by time stamps or by positions in the file."""
