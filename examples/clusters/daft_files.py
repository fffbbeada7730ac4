"""Transcribe files with Daft: each row of a DataFrame is a recording.

python examples/clusters/daft_files.py "s3://talks/2026/*.mp3" base talks.parquet
"""

import sys
from contextlib import ExitStack

import daft
from daft import DataType, Series

import whisperbatch as wb

pattern, model, output = sys.argv[1:]
RESULT = DataType.struct(
    {"text": DataType.string(), "language": DataType.string(), "error": DataType.string()}
)


@daft.cls(use_process=True, max_concurrency=1)  # for each machine; on GPUs: gpus=1
class Transcriber:
    """A loaded model."""

    def __init__(self, model: str) -> None:
        self.asr = wb.load(model)

    @daft.method.batch(return_dtype=RESULT, batch_size=16)
    def transcribe(self, files: Series) -> list[dict[str, str | None]]:
        """Transcribe recordings together. An error is a row, so it does not stop the others."""
        rows: list[dict[str, str | None]] = []
        with ExitStack() as opened:
            sources = [opened.enter_context(file.open()) for file in files.to_pylist()]
            for result in self.asr.transcribe_many(sources, on_error="yield"):
                if isinstance(result, wb.Transcript):
                    row = {"text": result.text, "language": result.language, "error": None}
                else:
                    row = {"text": None, "language": None, "error": str(result)}
                rows.append(row)
        return rows


recordings = daft.from_glob_path(pattern).select("path")
result = Transcriber(model).transcribe(daft.functions.file(recordings["path"]))
recordings.select("path", result.alias("result").unnest()).write_parquet(output)
