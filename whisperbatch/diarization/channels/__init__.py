"""One speaker per channel: `speaker="channel"`, or the only speaker of a mono recording.

diarizer.py      listens to all channels, and returns the turns
tape.py          the latest audio of the channels
simultaneous.py  a chunk of each channel where several speak at the same time
activity.py      who speaks in each VAD frame: speech, and not the crosstalk of another channel
"""
