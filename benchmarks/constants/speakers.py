"""How the constants of the diarization were chosen.

`python -m benchmarks.diarization` measures all of them together; the programs of this folder
measure none of them.
"""

from typing import Final

ALONE: Final = "not measured alone"
NOT: Final = "not measured"

STATES: Final = {
    "diarization.assignment.MIN_SHARE": NOT,
    "diarization.assignment.MAX_WORD": "measured: cpWER with five values",
    "diarization.assignment.DOMINANT": "measured: cpWER with four values",
    "diarization.channels.activity.SMOOTHING": NOT,
    "diarization.channels.activity.ECHO": NOT,
    "diarization.channels.activity.ABOVE_CROSSTALK": NOT,
    "diarization.channels.activity.MIN_KNOWN": NOT,
    "diarization.channels.activity.UNKNOWN": NOT,
    "diarization.clustering.CLUSTERED": ALONE,
    "diarization.clustering.APART": ALONE,
    "diarization.clustering.SAME_VOICE": "measured: number of speakers with seven values",
    "diarization.clustering.SELECTION": "measured: number of speakers with seven values",
    "diarization.clustering.CHANGES": "measured: number of speakers with four values",
    "diarization.clustering.USUAL_CHANGES": NOT,
    "diarization.clustering.PRIOR_CHANGES": "measured: number of speakers with three values",
    "diarization.clustering.MIN_PIECES": ALONE,
    "diarization.clustering.STARTS": ALONE,
    "diarization.clustering.PARTS": ALONE,
    "diarization.clustering.PASSES": ALONE,
    "diarization.clustering.ROUNDS": ALONE,
    "diarization.labelling.RELIABLE": "measured: DER with five values",
    "diarization.labelling.CHANGE": "measured: DER with six values",
    "diarization.labelling.TEMPERATURE": "measured: a confidence of 0.7 is right in 7 of 10 cases",
    "diarization.naming.directions.SAME_VOICE": "measured: `benchmarks.diarization.known_voices`",
    "diarization.naming.voices.COMPLETE": NOT,
    "diarization.naming.voices.SEVERAL_VOICES": "measured: halves of one voice have at least 0.68",
    "diarization.pieces.PIECE": ALONE,
    "diarization.pieces.SHIFT": ALONE,
    "diarization.pieces.MIN_PIECE": ALONE,
    "diarization.recorder.WORD": ALONE,
    "diarization.smoothing.MIN_PAUSE": NOT,
    "diarization.smoothing.MIN_UNITS": NOT,
    "diarization.smoothing.MIN_DURATION": NOT,
    "diarization.tracks.NEAR": NOT,
    "diarization.tracks.HALF_DISTANCE": NOT,
    "diarization.turns.GAP": ALONE,
    "diarization.turns.NEAR": ALONE,
    "diarization.windows.HOP": ALONE,
}
"""State of each constant that decides about speakers."""

UNCHECKED: Final = {
    "diarization.adapters.whole_recording.STEP": "latency",
    "diarization.adapters.whole_recording.CONFIDENCE": "in place of an unknown value",
    "diarization.assignment.BLOCK": "cost",
    "diarization.channels.activity.SILENCE": "floor of a logarithm",
    "diarization.channels.diarizer.RECENT": "cost; changes provisional speakers only",
    "diarization.channels.diarizer.SAME": "check of the user's input",
    "diarization.channels.diarizer.SAME_FRAMES": "check of the user's input",
    "diarization.channels.diarizer.FEWEST": "check of the user's input",
    "diarization.labelling.STEP": "resolution",
    "diarization.listener.AHEAD": "cost",
    "diarization.naming.directions.LENGTH": "format of CAM++",
    "diarization.naming.references.MAX_REFERENCE": "check of the user's input",
    "diarization.naming.voices.MIN_SPEECH": "check of the user's input",
    "diarization.online.MORE": "cost; changes provisional speakers only",
    "diarization.online.GROWTH": "cost; changes provisional speakers only",
    "diarization.online.MOST": "cost; changes provisional speakers only",
    "diarization.online.CONFIDENCE": "in place of an unknown value",
    "diarization.pieces.FBANK_HOP": "format of CAM++",
    "diarization.pieces.FBANK_FRAME": "format of CAM++",
    "diarization.protocol.MAX_LAG": "check of the user's diarizer",
    "diarization.stage.NEAR": "cost; changes provisional speakers only",
    "diarization.tracks.MIN_WORD": "resolution",
    "diarization.tracks.UNIT": "resolution",
    "diarization.tracks.FAR": "above any time",
    "diarization.turns.NO_SPEAKER": "marks frames without a speaker",
    "diarization.turns.OVERLAP_CONFIDENCE": "in place of an unknown value",
    "diarization.windows.FRAME": "format of segmentation-3.0",
    "diarization.windows.FRAMES": "format of segmentation-3.0",
    "diarization.windows.CENTRE": "format of segmentation-3.0",
    "diarization.windows.FIRST_SAMPLE": "format of segmentation-3.0",
    "diarization.windows.WINDOW": "format of segmentation-3.0",
    "diarization.windows.STEP": "follows from HOP",
    "diarization.windows.MARGIN": "follows from HOP",
    "diarization.windows.NEIGHBOURS": "follows from HOP",
    "diarization.windows.SPEAKERS": "format of segmentation-3.0",
    "diarization.windows.BATCH": "cost and latency",
}
"""Constants of the diarization without a check, as in `inventory.UNCHECKED`."""
