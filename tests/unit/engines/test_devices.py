import pytest

from whisperbatch import OptionError
from whisperbatch.engines import devices


@pytest.fixture
def two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two CUDA devices, of which only the second supports int8."""
    types = {("cuda", 0): {"float32", "float16"}, ("cuda", 1): {"float32", "float16", "int8"}}
    monkeypatch.setattr(
        "ctranslate2.get_supported_compute_types", lambda device, index=0: types[device, index]
    )


@pytest.mark.parametrize(
    ("device", "count", "expected"),
    [("auto", 0, "cpu"), ("auto", 1, "cuda"), ("cpu", 1, "cpu"), ("cuda", 2, "cuda")],
)
def test_auto_is_cuda_if_the_library_finds_a_gpu(device: str, count: int, expected: str) -> None:
    assert devices.choose_device(device, (0,), device_count=count, library="X") == expected


@pytest.mark.parametrize(
    ("device", "indexes", "count", "message"),
    [
        ("cuda", (0,), 0, "X finds no CUDA device"),
        ("cuda", (0, 2), 2, "device_index=2 does not exist: X finds the CUDA devices 0 to 1"),
        ("cuda", (-1,), 2, "device_index=-1 does not exist"),
        ("auto", (1,), 0, "device_index=1 needs CUDA"),
    ],
)
def test_devices_that_do_not_exist_are_refused(
    device: str, indexes: tuple[int, ...], count: int, message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        devices.choose_device(device, indexes, device_count=count, library="X")


@pytest.mark.usefixtures("two_devices")
def test_a_compute_type_must_be_supported_by_every_device() -> None:
    assert devices.choose_compute_type("int8", "cuda", (1,)) == "int8"
    with pytest.raises(OptionError, match=r"'int8' is not supported by .* device 0; "):
        devices.choose_compute_type("int8", "cuda", (1, 0))
    assert devices.choose_compute_type("auto", "cuda", (0, 1)) == "float16"
