"""The audio tracks of a file.

info.py      what the container states about each track, and which track it prefers
opening.py   the track is chosen and opened
choice.py    the track that is read if the user names none: it has speech
"""
