"""Sections: a long recording is divided at points that are found from the audio around them.

    audio -> tape.Tape -> a run of the VAD for each section -> points.find_point -> stage.sections
          -> the second opinion and chunks of each section -> chunks.chunk_recording

Every section is processed as if the recording began with it. A worker that has only a part of the
recording (`types.Span`) therefore gets the results that a run over the whole recording gets.
"""

from whisperbatch.sections.chunks import chunk_recording

__all__ = ["chunk_recording"]
