"""The fields of a form, and what some of them mean together.

values            the fields by name, each read once
speakers          which requests find the speakers
known_speakers    the voices of known speakers
submitting        the recording for the model
"""
