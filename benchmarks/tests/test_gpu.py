"""benchmarks.gpu with CTranslate2 on the CPU; tests/unit/test_gpu_benchmark.py has the rest."""

from pathlib import Path

import pytest

import whisperbatch as wb
from benchmarks.gpu import ctranslate2_calls, end_to_end, inputs

SPEECH = Path(wb.__file__).parent / "doctor" / "clip.opus"
SMALL = inputs.EndingModel(
    **{**vars(inputs.SHAPES["base"]), "d_model": 64, "heads": 1, "layers": 1}
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return inputs.random_model("small", tmp_path_factory.mktemp("models") / "small", SMALL)


def test_texts_of_random_weights_end_by_themselves(model: Path) -> None:
    calls = ctranslate2_calls.Calls(model, "cpu", SMALL.n_mels)
    output = calls.encode(calls.features(2))
    texts = calls.generate(output, 2, 1)
    assert all(inputs.FIRST_END <= len(text) < 200 for text in texts)
    assert len(calls.align(output, texts)) == 2


def test_all_parts_of_a_call_are_timed(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctranslate2_calls, "ENCODED", (1, 2))
    monkeypatch.setattr(ctranslate2_calls, "GENERATED", ((2, 1), (1, 5)))
    monkeypatch.setattr(ctranslate2_calls, "SIDE_BY_SIDE", ((2, 1),))
    calls = ctranslate2_calls.Calls(model, "cpu", SMALL.n_mels)
    rows = dict(ctranslate2_calls.side_by_side(calls))
    rows |= ctranslate2_calls.parts(calls, on_gpu=False)
    assert list(rows) == [
        "2 workers, 1 rows",
        "encode 1 rows, pool keeps: False",
        "encode 2 rows, pool keeps: False",
        "generate 2 rows, beam 1",
        "align 2 rows",
        "generate 1 rows, beam 5",
    ]
    assert rows["generate 1 rows, beam 5"]["ms per step"] > 0


def test_programs_run_with_random_weights(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(end_to_end, "cases", lambda: [end_to_end.Case("as it is")])
    monkeypatch.setattr(end_to_end, "BEAMS", (1,))
    path = inputs.hour(SPEECH, tmp_path / "speech.wav", 40.0)
    rows = dict(end_to_end.whisperbatch(str(model), path, 40.0, device="cpu"))
    rows |= end_to_end.faster_whisper(str(model), path, 40.0, path, device="cpu", batches=(2,))
    assert list(rows) == ["whisperbatch, as it is", "faster-whisper batched, batch 2, beam 1"]
    assert all(0 < row["first"] <= 40 / row["times real time"] for row in rows.values())
    assert rows["whisperbatch, as it is"]["calls"] >= 2
