"""Hugging Face Inference Endpoints: the handler of a model, and its common code with the server.

request ──> inputs               the recording: base64 or a data: URL, in a body of JSON
       ├──> parameters           options by the names of the published handler, and by our own
       └──> generation           options by the names of transformers
answer  <── handler              text, chunks, speakers; settings: ASR_MODEL, ASSISTANT_MODEL, ...

`handler` runs inside the toolkit of Hugging Face, one call at a time. `whisperbatch serve` has the
same interface at / and /predict, and batches the requests of all clients together.
"""

from whisperbatch.huggingface.handler import (
    EndpointHandler,
    EndpointSettings,
    answer_of,
    with_draft_model,
)
from whisperbatch.huggingface.inputs import JsonBody, decode_inputs
from whisperbatch.huggingface.parameters import Inference, parse_object, parse_parameters

__all__ = [
    "EndpointHandler",
    "EndpointSettings",
    "Inference",
    "JsonBody",
    "answer_of",
    "decode_inputs",
    "parse_object",
    "parse_parameters",
    "with_draft_model",
]
