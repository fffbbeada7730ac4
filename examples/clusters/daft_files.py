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


@daft.cls(use_process=True, max_concurrency=1)  # processes in all; on GPUs: gpus=1
class Transcriber:
    """A loaded model."""

    def __init__(self, model: str) -> None:
        self.asr = wb.load(model)

    @daft.method.batch(return_dtype=RESULT, batch_size=16)
    def transcribe(self, files: Series) -> list[dict[str, str | None]]:
        """Transcribe recordings together. An error is a row, so it does not stop the others."""
        rows: list[dict[str, str | None]] = []
        sources = []
        with ExitStack() as opened:
            for file in files.to_pylist():
                rows.append({"text": None, "language": None, "error": None})
                try:
                    sources.append((rows[-1], opened.enter_context(file.open())))
                except Exception as error:  # noqa: BLE001 - ends this file only
                    rows[-1]["error"] = str(error)
            results = self.asr.transcribe_many([file for _, file in sources], on_error="yield")
            for (row, _), result in zip(sources, results, strict=True):
                if isinstance(result, wb.Transcript):
                    row.update(text=result.text, language=result.language)
                else:
                    row["error"] = str(result)
        return rows


recordings = daft.from_glob_path(pattern).select("path")
result = Transcriber(model).transcribe(daft.functions.file(recordings["path"]))
recordings.select("path", result.alias("result").unnest()).write_parquet(output)
