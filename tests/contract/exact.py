"""Loads a model into an engine with its most exact compute type."""

from pathlib import Path

from whisperbatch.engines.loading import load_engine
from whisperbatch.protocols import Engine


def load_exact(directory: Path, engine: str) -> Engine:
    compute_type = "int8" if engine in {"onnxruntime", "openvino"} else "float32"
    return load_engine(directory, engine=engine, device="cpu", compute_type=compute_type)
