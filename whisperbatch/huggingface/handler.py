"""The handler that the toolkit of Hugging Face Inference Endpoints calls.

    from whisperbatch.huggingface import EndpointHandler    # handler.py of the endpoint

The toolkit turns every exception into the status 400 with the message as the error. Environment
variables of the endpoint:

ASR_MODEL           the model: a name, directory or repository
HF_MODEL_DIR        directory of the endpoint's repository: the model, without ASR_MODEL
ASSISTANT_MODEL     draft model for requests with "assisted": true
DIARIZATION_MODEL   the option `diarizer`, such as "builtin" or "pyannote/speaker-diarization-3.1":
                    every request finds the speakers, unless it says "diarize": false
HF_TOKEN            read by huggingface_hub, which downloads the models
"""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from typing_extensions import Self, Unpack

import whisperbatch as wb
from whisperbatch.engines.settings import LoadKeywords
from whisperbatch.huggingface.inputs import FORMS, decode_inputs
from whisperbatch.huggingface.parameters import parse_parameters
from whisperbatch.text import shown

KEYS: Final = ("inputs", "parameters")
SILENCE: Final = np.zeros(16_000, np.float32)  # one second


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """The settings of an endpoint; a variable that is empty is not set.

    Attributes:
        asr_model: the model; None if it is not set.
        model_directory: directory of the endpoint's repository; None if it is not set.
        assistant_model: the draft model; None if it is not set.
        diarizer: the option `diarizer`, for requests without the parameter `diarize`; None if these
            requests do not find the speakers.
    """

    asr_model: str | None = None
    model_directory: str | None = None
    assistant_model: str | None = None
    diarizer: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Return the settings that the environment variables give.

        Args:
            environment: the variables; None for those of this process.

        Raises:
            OptionError: DIARIZATION_MODEL is no value of the option `diarizer`.
        """
        variables = os.environ if environment is None else environment
        diarizer = variables.get("DIARIZATION_MODEL") or None
        if diarizer:
            try:
                wb.Options(diarize=True, diarizer=diarizer)
            except wb.OptionError as error:
                raise wb.OptionError(f"DIARIZATION_MODEL: {error.marked}") from error
        return cls(
            asr_model=variables.get("ASR_MODEL") or None,
            model_directory=variables.get("HF_MODEL_DIR") or None,
            assistant_model=variables.get("ASSISTANT_MODEL") or None,
            diarizer=diarizer,
        )

    @property
    def model(self) -> str | None:
        """The model that the variables name: ASR_MODEL, otherwise HF_MODEL_DIR."""
        return self.asr_model or self.model_directory

    def with_speakers(self, options: wb.Options) -> wb.Options:
        """Return the options of requests without the parameter `diarize`.

        Options that find the speakers already stay as they are.
        """
        if not self.diarizer or options.diarize:
            return options
        return replace(options, diarize=True, diarizer=self.diarizer)


def with_draft_model(draft_model: str, keywords: LoadKeywords) -> LoadKeywords:
    """Return the keywords of `load` for the same model with a draft model.

    Only PyTorch has draft models. The settings of another engine have no meaning for PyTorch, so
    only the device and the revision are kept then.
    """
    engine = keywords.get("engine", "auto")
    if isinstance(engine, wb.TorchSettings):
        return {**keywords, "engine": replace(engine, draft_model=draft_model)}
    if engine == "torch":
        return {**keywords, "draft_model": draft_model}
    drafted: LoadKeywords = {"engine": "torch", "draft_model": draft_model}
    drafted["device"] = keywords.get("device", "auto")
    given = keywords.get("revision") if isinstance(engine, str) else engine.revision
    if given is not None:
        drafted["revision"] = given
    return drafted


class EndpointHandler:
    """Transcribes recordings for an endpoint of Hugging Face.

    The environment variables in `EndpointSettings` choose the models. With ASSISTANT_MODEL the
    model is loaded twice: for requests with a draft model, and for those without.

    Args:
        path: directory of the endpoint's repository: the model, if ASR_MODEL is not set.
        **keywords: of `load`.

    Raises:
        OptionError: no model is named, DIARIZATION_MODEL is wrong, or a keyword is wrong.
        ModelError: the weights are missing or damaged.
        MissingExtraError: a package is not installed; draft models need the extra `torch`, and
            DIARIZATION_MODEL needs the extra of its diarizer.
    """

    def __init__(self, path: str = "", **keywords: Unpack[LoadKeywords]) -> None:
        settings = EndpointSettings.from_environment()
        model = settings.asr_model or path or settings.model_directory
        if not model:
            raise wb.OptionError(
                "no model: set ASR_MODEL to a name, directory or repository of a model"
            )
        self._defaults = settings.with_speakers(wb.Options())
        if self._defaults.diarize:
            wb.diarize(SILENCE, diarizer=self._defaults.diarizer)  # loads the networks
        with ExitStack() as stack:
            self._asr = stack.enter_context(wb.load(model, **keywords))
            self._assisted: wb.Transcriber | None = None
            if settings.assistant_model:
                drafted = with_draft_model(settings.assistant_model, keywords)
                self._assisted = stack.enter_context(wb.load(model, **drafted))
            self._stack = stack.pop_all()

    def __call__(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Transcribe a recording.

        Args:
            data: the recording as `inputs` (bytes of a media file, base64, or a data: URL), and
                optionally `parameters`, an object.

        Returns:
            `text`, `chunks` and `speakers`; see `answer_of`.

        Raises:
            OptionError: a key or parameter is unknown or wrong, or `inputs` is not base64.
            AudioError: the recording cannot be read.
            MissingExtraError: the request finds speakers, without the weights of the diarizer.
            EngineError: the engine failed.
        """
        if not isinstance(data, Mapping):
            raise wb.OptionError('the request must be an object: {"inputs": ..., "parameters": {}}')
        for key in data:
            if key not in KEYS:
                raise wb.OptionError(f"{shown(key)} is refused: send inputs and parameters")
        asked = parse_parameters(
            data.get("parameters"),
            self._defaults,
            can_assist=self._assisted is not None,
        )
        recording = recording_of(data.get("inputs"))
        asr = self._assisted if self._assisted and asked.assisted else self._asr
        return answer_of(asr.transcribe(recording, options=asked.options), words=asked.words)

    def close(self) -> None:
        """Free the models. Safe to call twice."""
        self._stack.close()


def recording_of(inputs: object) -> bytes:
    """Return the recording of a request.

    Args:
        inputs: bytes of a media file, base64, or a data: URL.

    Raises:
        OptionError: there is no recording, or it is not base64.
    """
    if inputs is None:
        raise wb.OptionError("inputs is missing: send the recording")
    if isinstance(inputs, str):
        inputs = decode_inputs(inputs)
    if not isinstance(inputs, bytes | bytearray | memoryview):
        raise wb.OptionError(f"inputs must be the bytes of a media file, or {FORMS}")
    if not inputs:
        raise wb.OptionError("inputs is empty")
    return bytes(inputs)


def answer_of(transcript: wb.Transcript, *, words: bool = False) -> dict[str, Any]:
    """Return the answer to a request.

    Args:
        transcript: of the recording.
        words: whether a chunk is a word, and not a segment.

    Returns:
        `text`, `chunks` and `speakers`. A chunk is a segment: its text, its start and end in
        seconds, and its words if the request asks for word timestamps. `speakers` has the chunks
        with their speaker, as in the published handler; without `diarize`, it is empty.
    """
    chunks = [_chunk(segment) for segment in transcript.segments]
    in_words = [word for chunk in chunks for word in chunk.get("words", ())]
    return {
        "text": transcript.text,
        "chunks": in_words if words else chunks,
        "speakers": [
            {"speaker": segment.speaker, **chunk}
            for segment, chunk in zip(transcript.segments, chunks, strict=True)
            if segment.speaker is not None
        ],
    }


def _chunk(segment: wb.Segment) -> dict[str, Any]:
    chunk: dict[str, Any] = {"text": segment.text, "timestamp": [segment.start, segment.end]}
    if segment.words is not None:
        chunk["words"] = [
            {"text": word.word, "timestamp": [word.start, word.end]} for word in segment.words
        ]
    return chunk
