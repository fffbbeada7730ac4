"""faster-whisper's methods that work on encoder windows of 30 s, on our engines.

`transcribe` uses none of them: it runs whisperbatch's pipeline. They serve programs that compute
features, decode windows and align tokens in their own order.

    features -> model.encode -> EncoderOutput -> model.generate -> tokens
                                              -> model.align    -> time of each token

model      `WhisperModel.model`: CTranslate2's methods, on any engine
results    the results of these methods
prompts    the parts of a prompt
timestamps segments between timestamp tokens
words      words with times, in segments
methods    `WhisperModel.encode`, `generate_segments`, `find_alignment` and similar methods
batches    `BatchedInferencePipeline.forward` and `generate_segment_batched`
"""
