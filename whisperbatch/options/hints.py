"""Names of other programs, with what to write here."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_FILE: Final = "write transcript.save('talk.srt'), or another suffix"
_STREAM: Final = "a stream yields segments, and transcribe() returns the transcript"
_SUBMITTED: Final = "wait for the transcript: submission.result(), or await"
_DEVICE: Final = "give load(..., device='cuda')"
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
            **dict.fromkeys(("chunks", "utterances", "sentences"), "write transcript.segments"),
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
        "SegmentStream": dict.fromkeys(
            ("segments", "text", "words", "to_dict", "to_json", "to_srt", "to_vtt", "save"), _STREAM
        ),
        "Submission": dict.fromkeys(
            ("segments", "text", "words", "to_dict", "to_json", "to_srt", "to_vtt", "save"),
            _SUBMITTED,
        ),
        "Transcriber": {
            **dict.fromkeys(("to", "cuda", "cpu", "half", "float", "eval"), _DEVICE),
            **dict.fromkeys(("align", "load_align_model"), "transcribe with word_timestamps=True"),
            **dict.fromkeys(("generate", "decode", "transcribe_stable"), "write transcribe(...)"),
            **dict.fromkeys(("transcribe_batch", "batch_transcribe"), "write transcribe_many(...)"),
            "diarize": "transcribe with diarize=True, or write whisperbatch.diarize(...)",
        },
    }
)
"""Class -> name of an attribute or key elsewhere -> what to write here."""
