"""Names from other programs, and what to use here: for flags, keywords, attributes and pages.

A name of our own means that the other name has exactly this meaning: the command line accepts it,
and Python says "use ...". A sentence says what to do. It marks options with backticks, as all
messages do: "use `compute_type`" is "use --compute-type" on the command line. A pair has the
sentence for Python, and the sentence for the command line.

The tables in docs/how-to/move-from-*.md are made from this file (`make declarations`).
"""

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NoReturn, TypeAlias

from whisperbatch.errors import Spelling, spell_in_python, spell_options

MIN_SIMILARITY: Final = 0.75  # difflib's ratio: below it, other words only share letters
MAX_NAME: Final = 60  # characters that are compared with the names of options

Advice: TypeAlias = str | tuple[str, str]

_SECONDS: Final = "(in seconds)"
_RECORDING: Final = (
    'give the recording first, without a name: transcribe("talk.mp3")',
    "give the recording without a flag: whisperbatch talk.mp3",
)
_FORMAT: Final = 'write a file: transcript.save("talk.srt")'
_OUTPUT: Final = (_FORMAT, "output_dir")
_LAYOUT: Final = 'give it to transcript.save("talk.srt", ...)'
_VERBOSE: Final = "leave it out to print nothing, or use progress=True"
_RETRIED: Final = "leave it out, or use `temperature=(0.0, 0.2, 0.4)` to sample failed chunks"
_SHOWN: Final = ("use progress=True", "leave it out: a terminal shows the progress")
_HF_TOKEN: Final = "set the environment variable HF_TOKEN"  # noqa: S105 - a sentence
_OFFLINE: Final = "set the environment variable HF_HUB_OFFLINE=1"
_CACHE: Final = "set the environment variable HF_HOME, or give a directory of weights as `model`"
_SILERO: Final = "leave it out: the VAD is always Silero's"
_NO_ALIGNER: Final = "leave it out: `word_timestamps` needs no alignment model"
_ONE_BY_ONE: Final = "give each of its entries as an option, such as `beam_size=5`"
_TO_LOAD: Final = "give it to load"

OPENAI_WHISPER: Final[Mapping[str, Advice]] = MappingProxyType(
    {
        "audio": _RECORDING,
        "logprob_threshold": "log_prob_threshold",
        "sample_len": "max_new_tokens",
        "prompt": "initial_prompt",
        "threads": "intra_threads",
        "temperature_increment_on_fallback": _RETRIED,
        "fp16": "use `compute_type`",
        "verbose": _VERBOSE,
        "carry_initial_prompt": "leave it out: `initial_prompt` precedes every chunk",
        "hallucination_silence_threshold": "use `hallucination_filter`; silence is not decoded",
        "without_timestamps": "use `timestamps` (the default decodes without timestamp tokens)",
        "prepend_punctuations": "leave it out: the punctuation that belongs to a word is fixed",
        "append_punctuations": "leave it out: the punctuation that belongs to a word is fixed",
        "model_dir": _CACHE,
        "download_root": _CACHE,
        "in_memory": "leave it out: weights are always loaded into memory",
        "output_format": (_FORMAT, "format"),
        "output_dir": _OUTPUT,
        "max_line_width": _LAYOUT,
        "max_line_count": _LAYOUT,
        "max_words_per_line": _LAYOUT,
        "highlight_words": _LAYOUT,
    }
)

FASTER_WHISPER: Final[Mapping[str, Advice]] = MappingProxyType(
    {
        "model_size_or_path": "model",
        "cpu_threads": "intra_threads",
        "num_workers": "inter_threads",
        "vad_filter": "vad",
        "vad_parameters": "use `vad_onset` (every VAD parameter is an option)",
        "threshold": "use `vad_onset`",
        "neg_threshold": "use `vad_offset`",
        "min_speech_duration_ms": f"use `min_speech_duration` {_SECONDS}",
        "max_speech_duration_s": f"use `max_speech_duration` {_SECONDS}",
        "min_silence_duration_ms": f"use `min_silence_duration` {_SECONDS}",
        "speech_pad_ms": f"use `speech_pad` {_SECONDS}",
        "prompt_reset_on_temperature": (
            "leave it out: text that failed a check is never the context of the next chunk"
        ),
        "log_progress": _SHOWN,
        "local_files_only": _OFFLINE,
        "use_auth_token": _HF_TOKEN,
        "files": "give a directory of weights as `model`",
    }
)

WHISPER_CTRANSLATE2: Final[Mapping[str, Advice]] = MappingProxyType(
    {
        "model_directory": "model",
        "batched": "leave it out: chunks are always decoded in batches (`batch_size`)",
        "vad_threshold": "use `vad_onset`",
        "vad_min_speech_duration_ms": f"use `min_speech_duration` {_SECONDS}",
        "vad_max_speech_duration_s": f"use `max_speech_duration` {_SECONDS}",
        "vad_min_silence_duration_ms": f"use `min_silence_duration` {_SECONDS}",
        "vad_speech_pad_ms": f"use `speech_pad` {_SECONDS}",
        "print_colors": (
            "print the probability of each word yourself",
            "leave it out: --format json has the probability of each word",
        ),
        "pretty_json": "leave it out: JSON is written with line breaks",
        "live_transcribe": (
            "leave it out: give an open pipe with the sound of the microphone as the recording",
            "leave it out: send the microphone through a pipe, and give - as the recording",
        ),
        "live_input_device": "leave it out: ffmpeg or arecord read a microphone",
        "live_volume_threshold": "leave it out: the VAD finds speech",
        "speaker_name": "use `known_speakers`",
        "speaker_num": "num_speakers",
    }
)

WHISPERX: Final[Mapping[str, Advice]] = MappingProxyType(
    {
        "whisper_arch": "model",
        "chunk_size": "chunk_length",
        "segment_resolution": "segments",
        "hf_token": _HF_TOKEN,
        "token": _HF_TOKEN,
        "align_model": _NO_ALIGNER,
        "no_align": _NO_ALIGNER,
        "interpolate_method": _NO_ALIGNER,
        "align_words": _NO_ALIGNER,
        "return_char_alignments": "leave it out: words have times, letters have none",
        "vad_method": _SILERO,
        "vad_model": _SILERO,
        "vad_options": "use `vad_onset` and `vad_offset`",
        "diarize_model": "diarizer",
        "diarization": "diarize",
        "speaker_embeddings": "leave it out: `known_speakers` gives names to voices",
        "suppress_numerals": "put the ids of tokens with digits into `suppress_tokens`",
        "asr_options": _ONE_BY_ONE,
        "print_progress": _SHOWN,
        "model_cache_only": _OFFLINE,
        "temperatures": "temperature",
        "log_level": ('use logging.getLogger("whisperbatch").setLevel(...)', "use --verbose"),
    }
)

WHISPER_CPP: Final[Mapping[str, Advice]] = MappingProxyType(
    {
        "file": _RECORDING,
        "processors": "use `inter_threads`",
        "offset_t": f"use `clip_timestamps` {_SECONDS}",
        "offset_n": "use `clip_timestamps`",
        "duration": f"use `clip_timestamps` {_SECONDS}",
        "max_context": "use `condition_on_previous_text`",
        "max_len": (_LAYOUT, "use --max-line-width, with --max-line-count 1"),
        "split_on_word": "leave it out: lines always end with a word",
        "audio_ctx": "leave it out: the encoder always sees the whole chunk",
        "word_thold": "leave it out: words get their times from the alignment",
        "entropy_thold": "use `compression_ratio_threshold`",
        "logprob_thold": "log_prob_threshold",
        "no_speech_thold": "no_speech_threshold",
        "temperature_inc": "use `temperature=(0.0, 0.2, 0.4)`",
        "no_fallback": "leave it out: with `temperature=0` no chunk is sampled",
        "debug_mode": "use --verbose",
        "translate": "use `task='translate'`",
        "stereo_diarize": "use `diarize=True`; if each channel is one speaker, `speaker='channel'`",
        "tinydiarize": "use `diarize=True`",
        "detect_language": (
            "use whisperbatch.detect_language",
            "use whisperbatch detect-language talk.mp3",
        ),
        "output_txt": (_FORMAT, "use --format txt"),
        "output_vtt": (_FORMAT, "use --format vtt"),
        "output_srt": (_FORMAT, "use --format srt"),
        "output_lrc": (_FORMAT, "use --format lrc"),
        "output_csv": (_FORMAT, "use --format csv"),
        "output_json": (_FORMAT, "use --format json"),
        "output_json_full": (_FORMAT, "use --format json"),
        "output_words": (_FORMAT, "use --format srt with --highlight-words"),
        "output_file": (_FORMAT, "use --output talk.srt"),
        "no_prints": ("leave it out: nothing is printed", "use --quiet"),
        "print_special": "leave it out: special tokens are never printed",
        "print_confidence": (
            "read the words of each segment",
            "leave it out: --format json has the probability of each word",
        ),
        "no_timestamps": "leave it out: txt has no times",
        "no_gpu": "use `device='cpu'`",
        "gpu_device": "device_index",
        "flash_attn": "flash_attention",
        "suppress_nst": "leave it out: `suppress_tokens` has these symbols by default",
        "suppress_regex": "use `suppress_tokens`",
        "grammar": "leave it out; `hotwords` and `initial_prompt` name the words to expect",
    }
)

STABLE_TS: Final[Mapping[str, Advice]] = MappingProxyType(
    {
        "regroup": "use `segments`",
        "word_level": (_LAYOUT, "use --highlight-words, or --max-words-per-line 1"),
        "segment_level": "leave it out: segments are the default",
        "suppress_silence": "leave it out: words never last into silence that the VAD finds",
        "suppress_word_ts": "leave it out: words never last into silence that the VAD finds",
        "only_voice_freq": "leave it out: recordings are decoded as they are",
        "denoiser": "leave it out: recordings are decoded as they are",
        "demucs": "leave it out: recordings are decoded as they are",
        "dynamic_heads": "leave it out: the alignment heads are those of the model",
        "word_level_timestamps": "word_timestamps",
    }
)

INSANELY_FAST_WHISPER: Final[Mapping[str, Advice]] = MappingProxyType(
    {
        "file_name": _RECORDING,
        "model_name": "model",
        "device_id": "device_index",
        "transcript_path": (_FORMAT, "use --output talk.json"),
        "timestamp": "use `word_timestamps`",
        "flash": "use `flash_attention`",
        "diarization_model": "diarizer",
    }
)

TRANSFORMERS: Final[Mapping[str, Advice]] = MappingProxyType(
    {
        "inputs": _RECORDING,
        "num_beams": "beam_size",
        "chunk_length_s": f"use `chunk_length` {_SECONDS}",
        "stride_length_s": "leave it out: chunks are cut in pauses, and do not overlap",
        "return_timestamps": (
            "leave it out: segments have times; for those of words, use `word_timestamps=True`"
        ),
        "return_language": "leave it out: a transcript always has its language",
        "torch_dtype": "use `compute_type`",
        "dtype": "use `compute_type`",
        "generate_kwargs": _ONE_BY_ONE,
        "model_kwargs": _ONE_BY_ONE,
        "attn_implementation": "use `flash_attention`",
        "assistant_model": "use `draft_model`",
        "tokenizer": "leave it out: it belongs to the model",
        "feature_extractor": "leave it out: it belongs to the model",
    }
)

OPENAI_API: Final[Mapping[str, Advice]] = MappingProxyType(
    {
        "response_format": (_FORMAT, "use --format"),
        "timestamp_granularities": "use `word_timestamps=True`",
        "chunking_strategy": "use `vad_onset`, `speech_pad` and `min_silence_duration`",
        "include": "leave it out: `word_timestamps=True` gives probabilities, too",
        "known_speaker_names": "use `known_speakers`",
        "known_speaker_references": "use `known_speakers`",
        "speaker_labels": "diarize",
    }
)

OURS: Final[Mapping[str, Advice]] = MappingProxyType(
    {
        "encoder": "use `engine`",
        "decoder": "use `engine`",
        "assistant": "use `draft_model`",
        "lang": "language",
        "beam": "beam_size",
        "beams": "beam_size",
        "batch": "batch_size",
        "temp": "temperature",
        "on_progress": _SHOWN,
        "model": _TO_LOAD,
        "device": _TO_LOAD,
        "device_index": _TO_LOAD,
        "engine": _TO_LOAD,
        "compute_type": _TO_LOAD,
        "intra_threads": _TO_LOAD,
        "inter_threads": _TO_LOAD,
    }
)
"""Former names, short forms, and keywords of `load` that are given to a Transcriber."""

PROGRAMS: Final[Mapping[str, Mapping[str, Advice]]] = MappingProxyType(
    {
        "openai-whisper": OPENAI_WHISPER,
        "faster-whisper": FASTER_WHISPER,
        "whisper-ctranslate2": WHISPER_CTRANSLATE2,
        "WhisperX": WHISPERX,
        "whisper.cpp": WHISPER_CPP,
        "stable-ts": STABLE_TS,
        "insanely-fast-whisper": INSANELY_FAST_WHISPER,
        "transformers": TRANSFORMERS,
        "OpenAI's API": OPENAI_API,
    }
)
"""The options of each program. A name that several programs have is in the first of them."""

OTHER_NAMES: Final[Mapping[str, Advice]] = MappingProxyType(
    {name: advice for table in (*PROGRAMS.values(), OURS) for name, advice in table.items()}
)

RECORDINGS: Final = frozenset(name for name, advice in OTHER_NAMES.items() if advice is _RECORDING)
"""Names of the recording."""

SHORT_FLAGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "-l": "language",
        "-t": "threads",
        "-bo": "best_of",
        "-bs": "beam_size",
        "-lpt": "logprob_thold",
        "-nth": "no_speech_thold",
        "-tp": "temperature",
        "-dev": "gpu_device",
        "-p": "processors",
        "-ot": "offset_t",
        "-on": "offset_n",
        "-d": "duration",
        "-mc": "max_context",
        "-ml": "max_len",
        "-sow": "split_on_word",
        "-ac": "audio_ctx",
        "-wt": "word_thold",
        "-et": "entropy_thold",
        "-tpi": "temperature_inc",
        "-nf": "no_fallback",
        "-tr": "translate",
        "-di": "stereo_diarize",
        "-tdrz": "tinydiarize",
        "-dl": "detect_language",
        "-otxt": "output_txt",
        "-ovtt": "output_vtt",
        "-osrt": "output_srt",
        "-olrc": "output_lrc",
        "-ocsv": "output_csv",
        "-oj": "output_json",
        "-ojf": "output_json_full",
        "-owts": "output_words",
        "-of": "output_file",
        "-np": "no_prints",
        "-ps": "print_special",
        "-pc": "print_colors",
        "-pp": "print_progress",
        "-nt": "no_timestamps",
        "-ng": "no_gpu",
        "-fa": "flash_attn",
        "-sns": "suppress_nst",
    }
)
"""The short flags of whisper.cpp, and the names of the options that they set."""

SAME_VALUES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "vad_method": frozenset({"silero"}),
        "print_progress": frozenset({"true", "false"}),
        "batched": frozenset({"true"}),
        "pretty_json": frozenset({"true"}),
    }
)
"""Flags without a name here -> their values that ask for what whisperbatch does anyway."""

OTHER_FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "text": "txt",
        "md": "txt",
        "markdown": "txt",
        "docx": "txt",
        "pdf": "txt",
        "html": "txt",
        "subrip": "srt",
        "sub": "srt",
        "ssa": "ass",
        "webvtt": "vtt",
        "dfxp": "ttml",
        "xml": "ttml",
        "jsonl": "json",
        "verbose_json": "json",
        "diarized_json": "json",
        "xlsx": "csv",
        "aud": "tsv",
    }
)
"""Formats of files elsewhere, and the nearest format here."""

FORMAT_REMARKS: Final[Mapping[str, str]] = MappingProxyType(
    {"aud": "its times are in milliseconds, those of Audacity's labels in seconds"}
)
"""What differs between a format elsewhere and the nearest format here."""

_LOADED: Final = 'use whisperbatch.load("base")'
_PATHS: Final = "leave it out: transcribe takes a path or samples"
_WORDS: Final = "leave it out: transcribe(..., word_timestamps=True) gives words with times"
_SPEAKERS: Final = "leave it out: transcribe(..., diarize=True) gives words and segments a speaker"
_DROP_IN: Final = "use whisperbatch.compat.faster_whisper, which has it"
_WRITTEN: Final = 'use transcript.save("talk.srt")'
_NO_WINDOWS: Final = "leave it out: transcribe makes features and decodes them"

PACKAGE_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "load_model": _LOADED,
        "WhisperModel": f"{_DROP_IN}, or {_LOADED[4:]}",
        "BatchedInferencePipeline": f"{_DROP_IN}, or {_LOADED[4:]}",
        "Whisper": _LOADED,
        "FasterWhisperPipeline": _LOADED,
        "load_faster_whisper": _LOADED,
        "load_hf_whisper": _LOADED,
        "pipeline": _LOADED,
        "Model": _LOADED,
        "OpenAI": "use the server: whisperbatch serve; OpenAI's client then takes its address",
        "load_audio": _PATHS,
        "decode_audio": f"{_DROP_IN}; transcribe takes a path or samples",
        "pad_or_trim": _NO_WINDOWS,
        "log_mel_spectrogram": _NO_WINDOWS,
        "DecodingOptions": "use whisperbatch.Options",
        "DecodingResult": "use whisperbatch.Transcript",
        "WhisperResult": "use whisperbatch.Transcript",
        "TranscriptionOptions": "use whisperbatch.Options",
        "VadOptions": "use whisperbatch.Options: every VAD parameter is an option",
        "decode": _NO_WINDOWS,
        "align": _WORDS,
        "load_align_model": _WORDS,
        "DiarizationPipeline": _SPEAKERS,
        "assign_word_speakers": _SPEAKERS,
        "get_writer": _WRITTEN,
        "format_timestamp": _WRITTEN,
        "LANGUAGES": "use whisperbatch.text.LANGUAGES",
        "tokenizer": "use whisperbatch.text.LANGUAGES for the languages of Whisper",
        "utils": 'use transcript.save("talk.srt") to write a file',
        "transcribe_file": "use whisperbatch.transcribe",
        "transcribe_batch": "use whisperbatch.transcribe_many",
    }
)
"""Names in other packages, for `whisperbatch.NAME` and `from whisperbatch import NAME`."""

COMPAT_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("compat.whisper", "compat.openai_whisper", "compat.whisperx", "compat.transformers"),
            "only faster_whisper has a drop-in here; docs/how-to/move-from-*.md compare the names",
        ),
    }
)
"""Modules that are not in `whisperbatch.compat`, for `import`."""

MODEL_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "dims": "the attribute engine describes the model and its device",
        "supported_languages": "use whisperbatch.text.LANGUAGES",
        **dict.fromkeys(
            ("generate", "decode", "transcribe_stable", "transcribe_minimal"), "use transcribe"
        ),
        "transcribe_batch": "use transcribe_many",
        **dict.fromkeys(
            ("align", "align_words", "refine"),
            "use transcribe(..., word_timestamps=True), which gives words with times",
        ),
        **dict.fromkeys(
            ("embed_audio", "encode"), "use whisperbatch.compat.faster_whisper.WhisperModel.encode"
        ),
        "to": "give device to load",
        "cuda": 'give device="cuda" to load',
        "cpu": 'give device="cpu" to load',
        "half": "give compute_type to load",
        "eval": "leave it out",
    }
)
"""Attributes of models elsewhere, for `Transcriber`."""


_FILE: Final = "write transcript.save('talk.srt'), or another suffix"
_STREAM: Final = "a stream yields segments, and transcribe() returns the transcript"
_SUBMITTED: Final = "wait for the transcript: submission.result(), or await"
_OF_TRANSCRIPTS: Final = (
    *("segments", "text", "words", "to_dict", "to_json", "to_srt", "to_vtt", "save"),
)
_SCORE: Final = "write word.probability"
_TIMES: Final = "write start and end"
_TOKENS: Final = "tokens are not kept; whisperbatch.compat.faster_whisper has them"

RESULT_NAMES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "Transcript": {
            **dict.fromkeys(("to_srt_vtt", "to_ass", "to_tsv", "write", "export"), _FILE),
            **dict.fromkeys(("save_as_json", "to_json_file"), "write transcript.save('talk.json')"),
            **dict.fromkeys(("model_dump", "dict", "segments_to_dicts"), "write to_dict()"),
            **dict.fromkeys(("model_dump_json", "json"), "write to_json()"),
            **dict.fromkeys(("to_df", "to_dataframe"), "write to_pandas()"),
            **dict.fromkeys(("word_segments", "all_words"), "write transcript.words"),
            **dict.fromkeys(("utterances", "sentences"), "write transcript.segments"),
            "chunks": (
                "write transcript.segments; the attribute transcript.chunks is a number: how many "
                "chunks were decoded"
            ),
            "txt": "write transcript.text, or transcript.to_txt()",
            "srt": "write transcript.to_srt()",
            "vtt": "write transcript.to_vtt()",
            "info": "write transcript.language, transcript.duration",
        },
        "Segment": {
            **dict.fromkeys(("tokens", "seek"), _TOKENS),
            **dict.fromkeys(("model_dump", "_asdict", "dict"), "write to_dict()"),
            "timestamp": _TIMES,
            "score": "write segment.avg_logprob",
            "chars": "words have times, characters have none; transcribe with word_timestamps=True",
        },
        "Word": {
            **dict.fromkeys(("score", "confidence"), _SCORE),
            **dict.fromkeys(("model_dump", "_asdict", "dict"), "write to_dict()"),
            "timestamp": _TIMES,
            "text": "write word.word",
        },
        "SegmentStream": dict.fromkeys(_OF_TRANSCRIPTS, _STREAM),
        "Submission": dict.fromkeys(_OF_TRANSCRIPTS, _SUBMITTED),
        "Transcriber": MODEL_NAMES,
    }
)
"""Class -> name of an attribute or key elsewhere -> what to write here."""


def advice_on(name: str, *, command_line: bool = False) -> str:
    """Return what to use instead of an option of another program; "" if the name is not known.

    Args:
        name: as a keyword.
        command_line: whether the name is a flag.

    Returns:
        A sentence in which backticks mark options.
    """
    advice = OTHER_NAMES.get(name, "")
    text = advice[command_line] if isinstance(advice, tuple) else advice
    return f"use `{text}`" if text.isidentifier() else text


def in_python(names: Collection[str], elsewhere: str) -> Spelling:
    """Return how Python writes an option in a message.

    Args:
        names: keywords of the function that is called.
        elsewhere: a remark about all other names: "a keyword of load".
    """

    def spell(name: str, value: str | None) -> str:
        text = spell_in_python(name, value)
        return text if name in names else f"{text} ({elsewhere})"

    return spell


def same_option(name: str) -> str | None:
    """Return the flag that has exactly the meaning of another program's, as a keyword.

    Args:
        name: as a keyword, or a short flag: "lang", "-l".
    """
    name = SHORT_FLAGS.get(name, name)
    advice = OTHER_NAMES.get(name, name)
    text = advice[1] if isinstance(advice, tuple) else advice
    return text if text.isidentifier() else None


def hint_for(
    name: str,
    names: Iterable[str],
    spell: Spelling = spell_in_python,
    *,
    command_line: bool = False,
) -> str:
    """Return how to correct an unknown option name: "did you mean beam_size?", "use vad".

    Args:
        name: the unknown name, as a keyword (`vad_filter`) or as a flag (`--vad-filter`).
        names: the names that may be suggested for a close spelling.
        spell: writes an option for the message; the command line makes a flag of it.
        command_line: whether the name is a flag.

    Returns:
        The hint, or "" if no name is close and the name is not known from other programs.
    """
    keyword = name.lstrip("-").replace("-", "_").lower()[:MAX_NAME]
    if advice := advice_on(keyword, command_line=command_line):
        return spell_options(advice, spell)
    close = difflib.get_close_matches(keyword, names, n=1, cutoff=MIN_SIMILARITY)
    return f"did you mean {spell(close[0], None)}?" if close else ""


def explaining(name: str) -> Callable[..., NoReturn]:
    """Return a function in place of a name of `PACKAGE_NAMES`: it says what to use instead."""

    def explain(*_: object, **__: object) -> NoReturn:
        raise AttributeError(f"whisperbatch has no {name}; {PACKAGE_NAMES[name]}")

    return explain


def device_hint(device: str) -> str:
    """Return what to use instead of a device of another program; "" if it is not known."""
    name = device.strip().lower()
    if match := re.fullmatch(r"(?:cuda|gpu):(\d{1,4})", name):
        return f"use `device='cuda'` with `device_index={match[1]}`"
    if name in {"gpu", "nvidia", "cuda:"}:
        return "use `device='cuda'`"
    if name in {"mps", "metal", "coreml", "apple"}:
        return "use `device='cpu'`: no engine here runs on Apple's GPU"
    if name in {"xpu", "vulkan", "opencl", "npu", "directml"}:
        return "use `device='cpu'`: the engines here run on CPUs and on NVIDIA's GPUs"
    return ""
