"""Decode requests for the contract tests."""

from collections.abc import Sequence

from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.options import Options
from whisperbatch.protocols import DecodeRequest, Engine


def requests_for(
    engine: Engine, frames: Sequence[int], options: Options, prefix: str = ""
) -> list[DecodeRequest]:
    """One request for each row; English, with timestamp tokens if the options say so."""
    tokenizer = whisper_tokenizer(engine)
    start = tuple(tokenizer.prompt("en", "transcribe"))
    prompt = (*start, tokenizer.no_timestamps) if options.timestamps == "alignment" else start
    tokens = tuple(tokenizer.encode(prefix)) if prefix else ()
    if prefix and options.timestamps == "tokens":
        tokens = (tokenizer.no_timestamps + 1, *tokens)  # <|0.00|>
    return [DecodeRequest((*prompt, *tokens), start, tokens, count) for count in frames]


def whisper_tokenizer(engine: Engine) -> WhisperTokenizer:
    return WhisperTokenizer(engine.tokenizer, multilingual=engine.is_multilingual)
