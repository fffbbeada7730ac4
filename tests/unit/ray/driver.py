"""A program that transcribes on a cluster, and writes the rows as JSON.

python -m tests.unit.ray.driver ADDRESS SOURCE OUTPUT [KEYWORDS]

SOURCE is a plan, or the JSON lines of a dataset. KEYWORDS are those of `transcribe`, as JSON. With
the keyword "cheap", the actors have no model.
"""

import json
import sys
from pathlib import Path
from typing import Any

import ray

from tests.unit.ray import cheap_actors
from whisperbatch.ray import actors, transcribe


def main() -> None:
    """Run the program."""
    address, source, output = sys.argv[1:4]
    keywords: dict[str, Any] = json.loads(sys.argv[4]) if len(sys.argv) > 4 else {}
    if keywords.pop("cheap", False):
        actors.TaskActor = cheap_actors.CheapTaskActor  # type: ignore[misc]
        actors.RecordingActor = cheap_actors.CheapRecordingActor  # type: ignore[misc]
    ray.init(address, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    dataset = ray.data.read_json(source) if source.endswith(".jsonl") else source
    result = transcribe(dataset, remote_args={"resources": {"worker": 1}}, **keywords)
    Path(output).write_text(json.dumps(result.take_all()))


main()
