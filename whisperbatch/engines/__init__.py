"""Engines: each runs a Whisper model, and satisfies `protocols.Engine`.

settings.py      the settings of each engine, as keywords of `load`; which engine "auto" stands for
loading.py       loads a model into an engine
devices.py       which device and compute type "auto" stands for
model_info.py    tokenizer, special tokens and sizes of a model
arrays.py        the arrays of model.bin: sizes of encoder and decoder, weights of eight bits
calls.py         counts calls in progress, so that closing waits for them
memory.py        the batch size that a GPU holds; freed memory goes back to the operating system
search.py        greedy search, beam search, sampling and suppression, for all engines
alignment.py     the times of tokens, from the attention of the decoder
ctranslate2/     the engine for CPU and CUDA
onnx/            the engine for CPUs on ONNX Runtime and OpenVINO, with products in 8 bits
torch/           the engine on PyTorch
"""
