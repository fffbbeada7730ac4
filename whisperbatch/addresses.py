"""URLs without their secrets: `without_secrets` for every text that is shown, logged or stored.

    https://user:pw@host/a.mp3                       https://***@host/a.mp3
    https://b.s3.amazonaws.com/a.mp3?X-Amz-...&v=3   https://b.s3.amazonaws.com/a.mp3?v=3&***
    https://host/a.mp3;token=9f2c#access_token=9f2c  https://host/a.mp3;***#***

The full URL is used only to read. `identity_of` tells whether two URLs name the same recording.
"""

import re
from typing import Final
from urllib.parse import quote, unquote, unquote_plus

HIDDEN: Final = "***"
"""Stands for a password, or for the parameters that were removed."""

_SCHEME: Final = r"[A-Za-z][A-Za-z0-9+.-]+:"
_URL: Final = re.compile(
    rf"(?<![A-Za-z0-9+.-])({_SCHEME})([/\\]{{1,4}})"
    rf"((?:(?!(?<=[/\\]){_SCHEME}//)[^\s<>\"?#])*(?:[?#][^\s<>\"]*)?)"
)
"""Scheme, slashes (in JSON with backslashes), and the rest. A URL in a path is a URL of its own."""
_INNER: Final = {ord(mark): 0xE000 + number for number, mark in enumerate(' \t\r\n"<>')}
"""Characters that end a URL in a message, and characters without a meaning in their places."""
_OUTER: Final = {place: mark for mark, place in _INNER.items()}

_AFTER: Final = re.compile(r"[:;,.!?)\]}'`]+$")
"""Punctuation of the sentence that follows a URL."""
_BETWEEN: Final = re.compile("(&amp;|[&;?])")
"""Between two parameters, in HTML too. Some programs append "?token=9f2c" to a query."""
_PORT: Final = re.compile(r"(?:[^:@\[\]]*|\[[^\]]*\])(?::\d*)?")
"""A host with its port, without a user."""

_SIGNED: Final = re.compile(
    r"(x-?amz-?|x-?goog-?|x-?oss-?|x-?cos-?|q-(sign|ak|key|header|url)|ucloud).*"
    r"|(.*[-_.]|)(signature|sig|hmac|hdnea|hdnts|hdntl)"
    r"|awsaccesskeyid|googleaccessid|ossaccesskeyid|key-?pair-?id|signed_?headers"
)
"""Names of parameters that sign the rest of a URL: S3, Google, Aliyun, Tencent, CloudFront, Azure,
Akamai."""

_WITH_SIGNATURE: Final = frozenset(
    {
        *("expires", "expiry", "exp", "policy", "date", "valid_until", "security-token"),
        # Azure's shared access signatures
        *("sv", "ss", "srt", "sr", "sp", "st", "se", "spr", "sip", "si", "sks", "skv"),
        *("skt", "ske", "skoid", "sktid", "saoid", "suoid", "scid"),
        *("sdd", "ses", "rscc", "rscd", "rsce", "rscl", "rsct"),
    }
)
"""Names that belong to a signature, if the URL has one."""

_SECRET: Final = re.compile(
    r".*(signature|token|secret|passw|passphrase|passcode|credential|api-?_?key|access-?_?key"
    r"|authori[sz]|private|session|sessid|assertion|saml).*"
    r"|(.*[-_.]|)(key|keys|sig|pass|pwd|pw|auth|authkey|jwt|sas|sid|hmac|hash|digest|code|otp|pin"
    r"|nonce|ticket|policy|bearer|oauth|sign|tk|pat|cred|creds|verify|user|username|login|hdnea|hdnts|hdntl|md5|cookie)"
    r"|x-?amz-?.*|x-?goog-?.*|[a-z]+key"
)
"""Names of parameters whose values may give access."""

_SECRET_VALUE: Final = re.compile(
    r"eyJ[\w-]{8,}\.[\w-]{8,}(\.[\w-]*)?"  # a JSON Web Token
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}"  # an access key of AWS
    r"|(?:hf_|ghp_|gho_|github_pat_|glpat-|sk-|xox[abp]-)[\w-]{16,}"
    r"|(?i:bearer|basic)[ +].*"
)
"""Values that are secrets whatever their name is."""

_SECRET_STEP: Final = re.compile(rf"bot\d{{5,}}:[\w-]{{20,}}|{_SECRET_VALUE.pattern}")
"""Steps of a path that are secrets: Telegram's tokens of bots, and the values above."""


def without_secrets(text: str, *, whole: bool = False) -> str:
    """Return a text with the passwords and signatures of all URLs in it removed.

    The result has a `***` where something was removed. A text without secrets is unchanged, and so
    is the result of an earlier call. The function never fails.

    Args:
        text: a URL, a path, or a message that contains URLs.
        whole: the text is one URL or path, so spaces and quotation marks in it do not end the URL.
    """
    if ":/" not in text and ":\\" not in text:
        return text
    if whole and "://" not in text and not _URL.match(text):
        return text  # a path with such a folder
    try:
        if whole:
            return _URL.sub(_shown, text.translate(_INNER)).translate(_OUTER)
        return _URL.sub(_shown, text)
    except RecursionError:  # hundreds of URLs, each in a parameter of another
        return HIDDEN


def has_secrets(url: str) -> bool:
    """Return whether a URL contains a password or a signature."""
    return without_secrets(url, whole=True) != url


def identity_of(url: str) -> str:
    """Return a text that is equal for two URLs that differ only in their signatures.

    A signature belongs to the rest of its URL, and is new for each use. Other secrets may say
    which recording is meant ("?token=9f2c"), so they stay. URLs without a signature are unchanged.
    """
    address, mark, fragment = url.partition("#")
    path, question, query = address.partition("?")
    parts = re.split(_BETWEEN, query)[::2]
    names = [_name(part) for part in parts]
    if "://" not in path or not any(map(_SIGNED.fullmatch, names)):
        return url
    kept = [
        part
        for part, name in zip(parts, names, strict=True)
        if not (_SIGNED.fullmatch(name) or name in _WITH_SIGNATURE)
    ]
    return f"{path}{question if kept else ''}{'&'.join(kept)}{mark}{fragment}"


def _shown(match: re.Match[str]) -> str:
    scheme, slashes, rest = match.groups()
    end = _AFTER.search(rest)
    after = end[0] if end else ""
    rest = rest.removesuffix(after) if after else rest
    address, mark, fragment = rest.partition("#")
    if mark and "@" in fragment and not _PORT.fullmatch(re.split(r"[/?\\]", address)[0]):
        address, mark, fragment = rest, "", ""  # a "#" in a password
    place, question, query = address.partition("?")
    if question and "@" in query and not _PORT.fullmatch(re.split(r"[/\\]", place)[0]):
        place, question, query = address, "", ""  # a "?" in a password
    shown = f"{scheme}{slashes}{_without_user(scheme, place)}"
    shown += _join(question, re.split(_BETWEEN, query)) if question else ""
    shown += _join(mark, re.split(_BETWEEN, fragment)) if mark else ""
    return f"{shown}{after}"


def _without_user(scheme: str, place: str) -> str:
    """Return host and path without the user and the secret parameters of the path."""
    authority, slash, path = _divide(scheme, place)
    host = authority.rpartition("@")[2]
    user = f"{HIDDEN}@" if "@" in authority else ""
    steps = [_step(step) for step in path.split("/")]
    return f"{user}{host}{slash}{'/'.join(steps)}"


def _divide(scheme: str, place: str) -> tuple[str, str, str]:
    """Return the authority, the slash after it, and the path."""
    if scheme.lower() == "file:":
        return "", "", place
    first = re.split(r"[/\\]", place, maxsplit=1)[0]
    end = len(first)
    if "@" not in first and "@" in place and not _PORT.fullmatch(first):
        # "user:pa/ss@host": a slash in a password that was not encoded
        at = place.rindex("@")
        rest = re.split(r"[/\\]", place[at:], maxsplit=1)[0]
        end = at + len(rest)
    return place[:end], place[end : end + 1], place[end + 1 :]


def _step(step: str) -> str:
    """Return a step of a path without its secret parameters (";token=9f2c")."""
    name, mark, parameters = step.partition(";")
    name = HIDDEN if _SECRET_STEP.fullmatch(name) else name
    if "://" in (decoded := unquote(name)) and (shown := without_secrets(decoded)) != decoded:
        name = quote(shown, safe=":*@?&=")
    return name + (_join(mark, re.split("([&;,])", parameters)) if mark else "")


def _join(mark: str, parts: list[str]) -> str:
    """Return parameters without the secret ones.

    Args:
        mark: "?", "#" or ";".
        parts: parameters and, between them, their separators.
    """
    signed = any(_SIGNED.fullmatch(_name(part)) for part in parts[::2])
    kept = ""
    hidden = False
    for index in range(0, len(parts), 2):
        part = parts[index]
        if part == HIDDEN or _is_secret(part, signed=signed):
            hidden = True
            continue
        kept += (parts[index - 1] if kept else "") + _nested(part)
    if not hidden:
        return mark + "".join(_nested(part) for part in parts)
    return f"{mark}{kept}{'&' if kept else ''}{HIDDEN}"


def _is_secret(part: str, *, signed: bool) -> bool:
    """Return whether a parameter gives access. A flag without a value does not."""
    name, equals, value = part.partition("=")
    if _SECRET_VALUE.fullmatch(unquote_plus(value or name)):
        return True
    name = _name(part)
    belongs = bool(_SIGNED.fullmatch(name)) or (signed and name in _WITH_SIGNATURE)
    return bool(equals and value) and (belongs or _SECRET.fullmatch(name) is not None)


def _nested(part: str) -> str:
    """Return a parameter whose value may be an encoded URL, without the secrets of that URL."""
    name, equals, value = part.partition("=")
    decoded = unquote_plus(value)
    if not equals or decoded == value or "://" not in decoded:
        return f"{name}{equals}{without_secrets(value)}" if "://" in value else part
    shown = without_secrets(decoded)
    return part if shown == decoded else f"{name}={_encode(shown)}"


def _encode(url: str) -> str:
    encoded = {"&": "%26", "?": "%3F", "#": "%23", ";": "%3B", " ": "%20"}
    return "".join(encoded.get(c, c) for c in url)


def _name(part: str) -> str:
    return unquote_plus(unquote_plus(part.partition("=")[0])).lower().strip()
