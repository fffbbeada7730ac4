"""Which files of a directory are recordings: those that FFmpeg can read.

suffix          .mp3 .mkv ...         recording; if FFmpeg cannot read it, its recording fails
                .pdf .jpg .srt ...    other file
                all others, and none  FFmpeg opens the file and decodes its first packets
"""

from pathlib import PurePath
from typing import Any, Final

from whisperbatch.audio import is_recording

AUDIO: Final = (
    *(".3ga", ".aa", ".aac", ".aax", ".ac3", ".aif", ".aifc", ".aiff", ".amr", ".ape", ".au"),
    *(".awb", ".bwf", ".caf", ".dss", ".dts", ".eac3", ".flac", ".g722", ".gsm", ".m2a", ".m4a"),
    *(".m4b", ".m4r", ".mka", ".mp2", ".mp3", ".mpga", ".oga", ".ogg", ".oma", ".opus", ".qcp"),
    *(".ra", ".rf64", ".rm", ".snd", ".sph", ".spx", ".tta", ".voc", ".w64", ".wav", ".wave"),
    *(".weba", ".wma", ".wv"),
)
VIDEO: Final = (
    *(".3g2", ".3gp", ".3gpp", ".asf", ".avi", ".divx", ".dv", ".f4v", ".flv", ".m2t", ".m2ts"),
    *(".m2v", ".m4v", ".mk3d", ".mkv", ".mov", ".mp4", ".mpe", ".mpeg", ".mpg", ".mts", ".mxf"),
    *(".nut", ".ogm", ".ogv", ".ogx", ".qt", ".rmvb", ".tod", ".ts", ".vob", ".webm", ".wmv"),
    ".wtv",
)
PROBE_RANGE: Final = 2**18  # bytes of a request to a store: most headers are shorter

MEDIA_SUFFIXES: Final = frozenset(AUDIO + VIDEO)

OTHER_SUFFIXES: Final = frozenset(
    (
        # transcripts, subtitles, and other text
        *(".ass", ".bib", ".cfg", ".conf", ".csv", ".ctm", ".cue", ".html", ".htm", ".ini"),
        *(".json", ".jsonl", ".log", ".lrc", ".md", ".nfo", ".rst", ".rtf", ".rttm", ".sbv"),
        *(".srt", ".ssa", ".stm", ".sub", ".tex", ".toml", ".tsv", ".ttml", ".txt", ".uem"),
        *(".vtt", ".xml", ".yaml", ".yml"),
        # playlists name other files and addresses, which must not be opened for them
        *(".asx", ".m3u", ".m3u8", ".mpd", ".pls", ".ram", ".sdp", ".xspf"),
        # documents
        *(".doc", ".docx", ".epub", ".key", ".numbers", ".odp", ".ods", ".odt", ".pages", ".pdf"),
        *(".ppt", ".pptx", ".ps", ".xls", ".xlsx"),
        # pictures
        *(".bmp", ".gif", ".heic", ".heif", ".ico", ".jpeg", ".jpg", ".png", ".psd", ".raw"),
        *(".svg", ".tif", ".tiff", ".webp"),
        # archives, programs, databases
        *(".7z", ".bat", ".bz2", ".c", ".cpp", ".css", ".db", ".dll", ".dmg", ".exe", ".go"),
        *(".gz", ".h", ".ipynb", ".iso", ".jar", ".java", ".js", ".lock", ".npy", ".npz"),
        *(".o", ".parquet", ".part", ".pickle", ".pkl", ".ps1", ".py", ".pyc", ".rar", ".rs"),
        *(".sh", ".so", ".sql", ".sqlite", ".tar", ".tgz", ".tmp", ".torrent", ".whl", ".xz"),
        *(".zip", ".zst"),
    )
)
"""Suffixes of files that are never opened to look for sound: this would take 10 ms for each file.
FFmpeg would also take some programs for MPEG streams (`audio.probing`)."""


def is_media(name: str, system: Any) -> bool:  # noqa: ANN401 - of fsspec
    """Return whether a file in a directory is a recording.

    Args:
        name: its path in the file system.
        system: opens the file if its suffix does not decide. A file that cannot be opened is no
            recording.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix in MEDIA_SUFFIXES:
        return True
    if suffix in OTHER_SUFFIXES:
        return False
    try:
        with system.open(name, "rb", block_size=PROBE_RANGE) as file:
            return is_recording(name, file)
    except Exception:  # noqa: BLE001 - of any file system
        return False
