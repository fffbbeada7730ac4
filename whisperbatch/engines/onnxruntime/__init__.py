"""The engine on ONNX Runtime, whose large products are computed with numbers of 8 bits.

products.py         products in 8 bits
graph.py            nodes that the encoder and the decoder share
encoder_graphs.py   the graphs of the encoder
decoder_graphs.py   the graphs of the decoder
sessions.py         loads graphs
encoder.py          computes the encoder
decoder.py          computes the decoder, and keeps keys and values of the encoder output
token_cache.py      keys and values of the tokens that the decoder has read
engine.py           the engine
"""
