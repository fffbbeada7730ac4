"""Sections: a long recording is divided at boundaries that are found from the audio around them.

    audio -> tape.Tape: each section gets its audio
          -> division.Sections: a run of the VAD for each section -> find_boundary
          -> chunk_recording: the second opinion and the chunks of each section
    spans of sections that were transcribed alone -> joining.join_spans

Every section is processed as if the recording began with it. A worker that has only a part of the
recording (`types.Span`) therefore gets the results that a run over the whole recording gets.
"""

from whisperbatch.sections.division import Readers, chunk_recording

__all__ = ["Readers", "chunk_recording"]
