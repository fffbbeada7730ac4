"""Two small tokenizers of Whisper's form, so that unit tests need no weights.

Both have the 256 bytes, the merges of a byte-level BPE that is trained on the text below, and
Whisper's special tokens in their order. As in Whisper, timestamps follow the last special token
and are not in the list of the tokenizer.
"""

from functools import cache
from typing import Final

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from whisperbatch.text.languages import LANGUAGES

TEXT: Final = """
 One two. Three four. Five. Three, four. One. Two Two. Yes. No. Hello. Good morning. Goodbye, world!
 Mr. O'Brien didn't pay $3.50 (he said). I don't, you can't, she isn't, we won't, it doesn't.
 The quick brown fox jumps over the lazy dog. And so, my fellow Americans, ask not what your country
 can do for you; ask what you can do for your country. Thank you for watching! Please subscribe.
 please enter your number and press pound then wait for the tone and more um uh thank you you you
 Please press one, two, three or four. The number you have dialed is not in service. Today we talk.
 Por favor, espere. Bonjour tout le monde, merci beaucoup. Guten Tag. Привет, как дела? Спасибо.
"""
BEFORE_LANGUAGES: Final = ("<|endoftext|>", "<|startoftranscript|>")
AFTER_LANGUAGES: Final = (
    *("<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>"),
    *("<|nospeech|>", "<|notimestamps|>"),
)
NEWEST: Final = "yue"  # only large-v3 and later know it


@cache
def small_tokenizer(*, multilingual: bool) -> Tokenizer:
    """A tokenizer with the special tokens of an English-only or a multilingual model."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT.splitlines(), trainer)
    codes = [code for code in LANGUAGES if code != NEWEST] if multilingual else ["en"]
    languages = [f"<|{code}|>" for code in codes]
    tokenizer.add_special_tokens([*BEFORE_LANGUAGES, *languages, *AFTER_LANGUAGES])
    return tokenizer
