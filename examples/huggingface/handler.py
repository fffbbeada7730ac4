"""The handler of a Hugging Face Inference Endpoint: put this file into the endpoint's repository.

requirements.txt beside it: whisperbatch with the extra `openvino` (on CPUs) or `torch`.
"""

from whisperbatch.huggingface import EndpointHandler

__all__ = ["EndpointHandler"]
