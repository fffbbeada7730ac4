"""A program that runs one diarizer on one file, with the Python that has it installed.

    python workers.py SYSTEM AUDIO.wav RESULT.json '{"speakers": 2, "models": "DIRECTORY"}'

It imports nothing of this project but whisperbatch, and that only to run whisperbatch itself.
RESULT.json: {"turns": [[start, end, speaker], ...], "took": seconds, "speech": [[start, end], ...],
"exclusive": [[start, end, speaker], ...], "version": text}. `speech` is null if a system does not
tell where it heard speech. `exclusive` has turns without overlap, if a system has such turns.
Loading and warming up do not count.
"""

import json
import sys
import time
import wave
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

# Modules of other environments: nothing here can be checked against them.
Turns: TypeAlias = list[tuple[float, float, str]]
Options: TypeAlias = dict[str, Any]
Speech: TypeAlias = list[tuple[float, float]]


class Found(NamedTuple):
    """What a system found; see RESULT.json."""

    turns: Turns
    took: float
    speech: Speech | None = None
    exclusive: Turns | tuple[()] = ()


Worker: TypeAlias = Callable[[str, Options], Found]

SEGMENTATION = "segmentation.onnx"  # the names of sherpa-onnx's two models in its directory
EMBEDDING = "embedding.onnx"


def senko(path: str, _: Options) -> Found:
    """Run senko with its defaults for CPUs; it takes no number of speakers.

    The library in senko's wheel that computes features contains instructions of AVX-512. On other
    processors, kaldi-native-fbank computes the same features, so the measured time includes the
    time of that package.
    """
    from senko import Diarizer  # noqa: PLC0415 - only in .venv-diarizers

    if "avx512f" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        Diarizer._extract_fbank_features = _features  # noqa: SLF001 - senko offers no choice
    diarizer = Diarizer(device="cpu", warmup=True, quiet=True)
    start = time.perf_counter()
    result = diarizer.diarize(path) or {"merged_segments": [], "vad": []}
    took = time.perf_counter() - start
    turns = [(s["start"], s["end"], s["speaker"]) for s in result["merged_segments"]]
    return Found(turns, took, result["vad"])


def _features(
    _: object, audio: str, ranges: list[tuple[float, float]], *, sample_offset: int = 0
) -> tuple[Any, Any, Any, int]:
    """Return what senko's library returns: Kaldi features of ranges of seconds, less their mean.

    Returns:
        The features of all ranges, flat; the frames of each range; where its features begin; and
        the features of a frame. The options of the features are those of senko.
    """
    import kaldi_native_fbank as knf  # type: ignore[import-not-found] # noqa: PLC0415 - see above
    import numpy as np  # noqa: PLC0415 - see above

    options = knf.FbankOptions()
    options.frame_opts.dither = 0
    options.frame_opts.snip_edges = True
    options.mel_opts.num_bins = 80
    options.energy_floor = 1.0
    samples = _read(audio) if isinstance(audio, str) else audio
    rows, frames = [], []
    for start, end in ranges:
        first = int(start * 16_000) - sample_offset
        part = samples[first : first + max(int((end - start) * 16_000), 1)]
        fbank = knf.OnlineFbank(options)
        fbank.accept_waveform(16_000, np.pad(part, (0, max(0, 400 - len(part)))).tolist())
        fbank.input_finished()
        row = np.stack([fbank.get_frame(n) for n in range(fbank.num_frames_ready)])
        rows.append((row - row.mean(axis=0)).ravel())
        frames.append(len(row))
    offsets = np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)[:-1]
    return np.concatenate(rows), np.array(frames, np.int64), offsets, options.mel_opts.num_bins


def sherpa(path: str, options: Options) -> Found:
    """Run sherpa-onnx with the two models in a directory, and its default threshold."""
    import sherpa_onnx as so  # type: ignore[import-not-found] # noqa: PLC0415 - only in .venv-diarizers

    directory = Path(options["models"])
    config = so.OfflineSpeakerDiarizationConfig(
        segmentation=so.OfflineSpeakerSegmentationModelConfig(
            pyannote=so.OfflineSpeakerSegmentationPyannoteModelConfig(
                model=str(directory / SEGMENTATION)
            )
        ),
        embedding=so.SpeakerEmbeddingExtractorConfig(model=str(directory / EMBEDDING)),
        clustering=so.FastClusteringConfig(num_clusters=options.get("speakers") or -1),
    )
    diarizer = so.OfflineSpeakerDiarization(config)
    samples = _read(path)
    start = time.perf_counter()
    turns = diarizer.process(samples).sort_by_start_time()
    took = time.perf_counter() - start
    return Found([(turn.start, turn.end, str(turn.speaker)) for turn in turns], took)


def pyannote(path: str, options: Options) -> Found:
    """Run a pipeline of pyannote.audio from a directory."""
    import torch  # noqa: PLC0415 - only in .venv-diarizers
    from pyannote.audio import Pipeline  # noqa: PLC0415 - only in .venv-diarizers

    pipeline = Pipeline.from_pretrained(options["models"])
    waveform = torch.from_numpy(_read(path))[None]
    start = time.perf_counter()
    output = pipeline(
        {"waveform": waveform, "sample_rate": 16_000}, num_speakers=options.get("speakers")
    )
    took = time.perf_counter() - start
    annotation = getattr(output, "speaker_diarization", output)  # version 4 returns an object
    tracks = annotation.itertracks(yield_label=True)
    return Found([(segment.start, segment.end, str(label)) for segment, _, label in tracks], took)


def whisperbatch(path: str, options: Options) -> Found:
    """Run whisperbatch; loading its models counts, a part of a second."""
    import whisperbatch as wb  # noqa: PLC0415 - only for this system

    diarize = getattr(wb, "diarize", None)
    if diarize is None:
        raise RuntimeError("this version of whisperbatch has no diarize()")
    start = time.perf_counter()
    found = diarize(path, num_speakers=options.get("speakers"))
    took = time.perf_counter() - start
    turns, exclusive = (
        [(turn.start, turn.end, str(turn.speaker)) for turn in some]
        for some in (found.turns, found.exclusive)
    )
    return Found(turns, took, exclusive=exclusive)


def _read(path: str) -> Any:  # noqa: ANN401 - numpy is not needed by every worker
    import numpy as np  # noqa: PLC0415 - see above

    with wave.open(path, "rb") as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    return samples.astype(np.float32) / 32768


WORKERS: dict[str, tuple[str, Worker]] = {  # the package, and how to run it
    "senko": ("senko", senko),
    "sherpa-onnx": ("sherpa-onnx", sherpa),
    "pyannote": ("pyannote.audio", pyannote),
    "whisperbatch": ("whisperbatch", whisperbatch),
}


def main(system: str, audio: str, result: str, options: str) -> None:
    """Run a system and write its result."""
    package, worker = WORKERS[system]
    found = worker(audio, json.loads(options))
    content = {**found._asdict(), "version": version(package)}
    Path(result).write_text(json.dumps(content), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
