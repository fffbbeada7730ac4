"""`load`: a model by name, on the best engine and device of this machine."""

import inspect
from os import PathLike
from typing import Final

from typing_extensions import Unpack

from whisperbatch.apart import call_apart
from whisperbatch.engines.settings import (
    Device,
    EngineKeywords,
    EngineName,
    EngineSettings,
    setting_parameters,
)
from whisperbatch.options import with_parameters
from whisperbatch.transcriber import Transcriber

DEFAULT_MODEL: Final = "base"


@with_parameters(*setting_parameters().values())
def load(
    model: str | PathLike[str] = DEFAULT_MODEL,
    *,
    device: Device = "auto",
    engine: EngineName | EngineSettings = "auto",
    **settings: Unpack[EngineKeywords],
) -> Transcriber:
    """Load a model once, to transcribe many recordings.

    Args:
        model: a name (for example "base"), a directory of CTranslate2 weights, or a Hugging Face
            repository. "torch" also loads transformers' weights (*.safetensors) from a directory or
            repository.
        device: "auto" uses CUDA if there is a GPU that works, otherwise the CPU. "openvino" and
            "onnxruntime" always run on the CPU.
        engine: the library that runs the model: "onnxruntime" is the fastest on a CPU with AVX2,
            "openvino" (extra `openvino`) is the same engine with an encoder that OpenVINO always
            computes, "ctranslate2" runs on CPU and CUDA, and "torch" (extra `torch`) is PyTorch.
            "auto" is onnxruntime on a CPU with AVX2, openvino on another CPU if it is installed,
            and otherwise ctranslate2. In Python, `engine` is a name or a settings object
            (`CTranslate2Settings`, `OnnxRuntimeSettings`, `OpenVinoSettings`, `TorchSettings`).
        **settings: these keywords, if `engine` is a name:
        revision: a commit, branch or tag of the model's repository on the Hugging Face hub. None is
            the branch "main", in the version that is in the cache, if there is one.
        device_index: For ctranslate2: number of the CUDA device, or several numbers. Each device
            gets a copy of the weights. For torch: number of the CUDA device.
        compute_type: For ctranslate2: type of the weights and of the arithmetic: "int8", "float16",
            "float32", or another type of CTranslate2. "auto": float16 on CUDA and int8 on a CPU, if
            the device supports the type. For onnxruntime: "int8": large products are computed with
            numbers of 8 bits. "int8_bfloat16": OpenVINO (an extra) computes the encoder in
            bfloat16, or in float32 if the processor does not support bfloat16. "auto":
            int8_bfloat16 if the processor has AMX or AVX-512 with bfloat16 and OpenVINO is
            installed, otherwise int8. For openvino: "int8": as "int8_bfloat16" for onnxruntime.
            "auto": int8. For torch: "float32", "bfloat16" or "float16". "auto": float16 on CUDA,
            bfloat16 on a CPU that supports bfloat16, otherwise float32.
        inter_threads: For ctranslate2: number of batches computed at a time on each device, from 0
            to 64; 0: one. For onnxruntime and openvino: number of batches computed at a time, from
            0 to 64; 0: two, each on half of the cores, or one if there is one core or
            `intra_threads` is given. For torch: 0 or 1: this engine computes one batch at a time.
        intra_threads: For ctranslate2: CPU threads for each batch, from 0 to 1024; 0 divides the
            cores between the batches. Refused on CUDA. For onnxruntime and openvino: CPU threads
            for each batch, from 0 to 1024; 0 divides the cores between the batches.
        flash_attention: compute attention with the Flash Attention 2 kernels, on CUDA only. Only
            for ctranslate2.
        kept_frames: For ctranslate2 and torch: 1.0 or None: this engine keeps all of the encoder's
            frames. For onnxruntime and openvino: the share of the encoder's frames that is left
            after similar neighbours are merged, from 0.25 to 1.0. The number of frames is rounded,
            by at most 3 %. Fewer frames take less time; 1.0 merges none. Chunks with noise always
            keep all frames. None: 0.7 for the models base and tiny.en, for which this was measured,
            and 1.0 for other models.
        quantization: store the decoder's weights in 4 bits ("hqq4") or 8 bits ("int8"). Only for
            torch.
        group_size: for "hqq4": number of weights that share a scale: 32, 64 or 128. Smaller groups
            are more accurate and need more memory. Only for torch.
        draft_model: a smaller model with the same vocabulary, which guesses tokens in greedy search
            (speculative decoding). Needs `beam_size=1`. Only for torch.
        compile: compile the encoder and the decoder at their first use, on CUDA only. Only for
            torch.

    Returns:
        The loaded model. `Transcriber.close`, or the end of a `with` block, frees the weights.

    Raises:
        OptionError: a device or setting is not available on this machine, or a setting is wrong or
            has no effect with this engine.
        MissingExtraError: the package of the engine is not installed.
        ModelError: the weights are missing or damaged.
    """

    def loaded() -> Transcriber:
        from whisperbatch.engines.loading import load_engine  # noqa: PLC0415 - heavy

        return Transcriber(load_engine(model, device=device, engine=engine, **settings))

    return call_apart(loaded, patience=None)


LOAD_PARAMETERS: Final = {
    name: parameter
    for name, parameter in inspect.signature(load).parameters.items()
    if name != "model"
}
"""The keywords of `load`: the parameters that the functions of `api` also have."""
