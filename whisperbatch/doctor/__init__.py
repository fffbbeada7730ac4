"""Checks of an installation, and the fix of each problem: the command `whisperbatch doctor`.

    diagnosis.py    all checks, in order
    packages.py     versions, conflicts, imports, interfaces
      extras.py     extras: which are complete, and which cannot be
    machine.py      processor, CPU quota
    storage.py      rights and space in caches
    audio.py        decoder, voice activity detection
    diarization.py  the diarizer's weights
    weights.py      the model's files, memory
    cuda.py         driver and libraries of GPUs
    engines.py      each engine on each device transcribes the clip
    clip.py         a recording with known text
    findings.py     the results of checks, as lines or as JSON
    processes.py    runs a probe in a separate process
      probes.py     functions that call libraries
    remedies.py     fixes for messages of libraries

The command must run even if a library is missing, damaged, or crashes. Therefore only probes.py
imports libraries or the rest of whisperbatch (except `dependencies` and `machine`, which import no
library), and runs in another process.
"""

from whisperbatch.doctor.diagnosis import TIME_LIMIT, Diagnosis
from whisperbatch.doctor.findings import Finding, has_problems, line, summary, to_json

__all__ = ["TIME_LIMIT", "Diagnosis", "Finding", "has_problems", "line", "summary", "to_json"]
