"""Decode requests for the contract tests."""

from collections.abc import Sequence

from whisperbatch.decoding.prompts import WhisperTokenizer
from whisperbatch.options import Options
from whisperbatch.protocols import DecodeRequest, Engine


def requests_for(engine: Engine, frames: Sequence[int], options: Options) -> list[DecodeRequest]:
    """One request for each row; English, with timestamp tokens and a prefix by the options."""
    tokenizer = whisper_tokenizer(engine)
    start = tuple(tokenizer.prompt("en", "transcribe"))
    prompt = (*start, tokenizer.no_timestamps) if options.timestamps == "alignment" else start
    prefix = tuple(tokenizer.encode(options.prefix)) if options.prefix else ()
    if prefix and options.timestamps == "tokens":
        prefix = (tokenizer.no_timestamps + 1, *prefix)  # <|0.00|>
    return [DecodeRequest((*prompt, *prefix), start, prefix, count) for count in frames]


def whisper_tokenizer(engine: Engine) -> WhisperTokenizer:
    return WhisperTokenizer(engine.tokenizer, multilingual=engine.is_multilingual)
