"""One speaker per channel: `speaker="channel"`, or the only speaker of a mono recording.

diarizer.py    listens to all channels, and returns the turns
activity.py    who speaks in each VAD frame: speech, and not the crosstalk of another channel
"""
