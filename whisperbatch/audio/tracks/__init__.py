"""The audio tracks of a file.

info.py      what the container states about each track, and which track it prefers
opening.py   the track is chosen and opened
pyav.py      the calls of PyAV that differ between its versions
choice.py    the track that is read if the user names none: it has speech
"""
