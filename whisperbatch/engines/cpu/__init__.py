"""The engines for CPUs, on OpenVINO and on ONNX Runtime: all but the graphs, which they compute.

    features -> encoder -> encoder output -> decoder -> hypotheses with the times of their tokens
                                   '-------> CTranslate2's decoder, for what this decoder lacks

runners.py          what a library computes for the encoder and the decoder
encoder.py          encodes row by row, and merges similar positions
encoder_output.py   the encoder output of a batch
decoder.py          decodes a batch, aligns texts and detects languages
batch_decoding.py   one batch, from the prompts to the last token
embeddings.py       the embeddings of tokens
engine.py           the engine, with CTranslate2 as its fallback
"""
