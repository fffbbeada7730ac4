import pytest

from whisperbatch.engines.calls import Calls
from whisperbatch.errors import ClosedError, EngineError, ModelError, OptionError


@pytest.mark.parametrize(
    ("raised", "expected", "message"),
    [
        (RuntimeError("no memory"), EngineError, "model base: no memory"),
        (ValueError("shape"), EngineError, "model base: shape"),
        (ModelError("model.bin is gone"), EngineError, "model.bin is gone"),
        (OptionError("beam_size"), OptionError, "beam_size"),
        (EngineError("failed"), EngineError, "failed"),
        (MemoryError(), MemoryError, ""),
    ],
)
def test_errors_of_a_call(raised: Exception, expected: type[Exception], message: str) -> None:
    calls = Calls("base")
    with pytest.raises(expected) as caught, calls():
        raise raised
    assert type(caught.value) is expected
    assert str(caught.value) == message
    freed: list[str] = []
    calls.close(lambda: freed.append("freed"))  # no call is in progress any longer
    assert freed == ["freed"]


def test_a_closed_engine_refuses_calls_and_frees_its_weights_once() -> None:
    calls, freed = Calls("base"), list[str]()
    for _ in range(2):
        calls.close(lambda: freed.append("freed"))
    assert freed == ["freed"]
    with pytest.raises(ClosedError, match="model base is closed"), calls():
        pytest.fail("the call began")
