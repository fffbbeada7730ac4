"""The engine for CPUs: ONNX Runtime decodes, and ONNX Runtime or OpenVINO encodes.

engine.py             the engine, with CTranslate2 as its fallback
encoder.py            encodes row by row, and merges similar positions; its graphs on ONNX Runtime
openvino_encoder.py   the encoder on OpenVINO: compiled graphs, one request for each worker
openvino_graphs.py    the graphs of this encoder
decoder.py            decodes a batch, aligns texts and detects languages
decoder_layers.py     the decoder's graphs, loaded, with the keys and values of a batch
decoder_graphs.py     the graphs of the decoder
graph.py              nodes that the graphs share, with products in 8 bits
"""
