"""Checks of an installation, and the fix of each problem: the command `whisperbatch doctor`.

    diagnosis.py    all checks, in order
    packages.py     versions, conflicts, imports, interfaces, extras
    machine.py      processor, CPU quota, rights and space in caches, GPUs
    audio.py        decoder, voice activity detection, diarizer
    engines.py      the model's files; each engine on each device transcribes a recording
    probes.py       functions that call libraries, each in a separate process
    findings.py     the results of checks, as lines or as JSON; fixes for messages of libraries

The command must run even if a library is missing, damaged, or crashes. Therefore only probes
import libraries or the rest of whisperbatch (except `dependencies`, `errors` and `machine`, which
import no library), and run in another process.
"""

from whisperbatch.doctor.diagnosis import TIME_LIMIT, diagnose
from whisperbatch.doctor.findings import Finding, has_problems, line, summary, to_json

__all__ = ["TIME_LIMIT", "Finding", "diagnose", "has_problems", "line", "summary", "to_json"]
