"""Engines: each runs Whisper's encoder and decoder, and satisfies `protocols.Engine`.

devices.py          which device, compute type and backend "auto" stands for
loading.py          which engine a model is loaded with
layout.py           sizes of a model, read from its arrays
special_tokens.py   ids of special tokens, and the biases that suppress tokens
search/             greedy search, beam search, sampling and alignment, for all engines
ctranslate2/        the engine for CPU and CUDA
openvino/           a faster encoder and decoder for `ctranslate2/` on a CPU
torch/              the engine on PyTorch
"""
