"""URLs without their secrets, in every form; and which URLs name the same recording."""

import pytest

from whisperbatch.addresses import has_secrets, identity_of, without_secrets

SIGNED = (
    "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=hush&X-Amz-Date=2026&X-Amz-Signature=hush"
)
AZURE = "sv=2024-11-04&se=2026-12-01T00%3A00Z&sr=b&sp=r&sig=hush%3D"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJodXNoIn0.hush-hush"

FORMS = {
    "user and password": ("https://me:hush@h/a.mp3", "https://***@h/a.mp3"),
    "user only": ("https://hush@h/a.mp3", "https://***@h/a.mp3"),
    "no user": ("https://:hush@h/a.mp3", "https://***@h/a.mp3"),
    "encoded @": ("https://me%40home:hu%40sh-hush@h/a", "https://***@h/a"),
    "@ that is not encoded": ("https://me:hush@hush@h/a", "https://***@h/a"),
    "slash that is not encoded": ("https://me:hu/hush@h:80/a", "https://***@h:80/a"),
    "? that is not encoded": ("https://me:hu?hush@h/a", "https://***@h/a"),
    "# that is not encoded": ("https://me:hu#hush@h/a", "https://***@h/a"),
    "backslash": ("https://me:hush\\@h/a", "https://***@h/a"),
    "IPv6": ("https://me:hush@[2001:db8::1]:8443/a", "https://***@[2001:db8::1]:8443/a"),
    "no path": ("https://me:hush@h", "https://***@h"),
    "upper case": ("HTTPS://ME:hush@H/A?TOKEN=hush", "HTTPS://***@H/A?***"),
    "a path made of it": ("https:/me:hush@h/a", "https:/***@h/a"),
    "FTP": ("ftp://me:hush@h/a.wav", "ftp://***@h/a.wav"),
    "RTSP camera": ("rtsp://admin:hush@10.0.0.1:554/s1", "rtsp://***@10.0.0.1:554/s1"),
    "keys of S3": ("s3://AKIA12345678:hush@bucket/a", "s3://***@bucket/a"),
    "chained": ("simplecache::https://me:hush@h/a", "simplecache::https://***@h/a"),
    "S3": (f"https://b.s3.amazonaws.com/a?{SIGNED}", "https://b.s3.amazonaws.com/a?***"),
    "S3, version": (f"https://b/a?versionId=3&{SIGNED}", "https://b/a?versionId=3&***"),
    "S3, version 2": (
        "https://b/a?AWSAccessKeyId=hush&Signature=hush&Expires=1",
        "https://b/a?***",
    ),
    "Google": ("https://g/a?X-Goog-Credential=hush&X-Goog-Signature=hush", "https://g/a?***"),
    "Google, old": ("https://g/a?GoogleAccessId=hush&Signature=hush", "https://g/a?***"),
    "Azure": (
        f"https://w.blob.core.windows.net/a?{AZURE}",
        "https://w.blob.core.windows.net/a?***",
    ),
    "CloudFront": ("https://c/a?Policy=hush&Signature=hush&Key-Pair-Id=hush", "https://c/a?***"),
    "Aliyun": ("https://o/a?OSSAccessKeyId=hush&Expires=9&Signature=hush", "https://o/a?***"),
    "Akamai": ("https://a/a?hdnea=exp=1~hmac=hush", "https://a/a?***"),
    "Firebase": ("https://f/v0/a?alt=media&token=hush", "https://f/v0/a?alt=media&***"),
    "access_token": ("https://h/a?id=7&access_token=hush", "https://h/a?id=7&***"),
    "key": ("https://h/a?key=hush&id=7", "https://h/a?id=7&***"),
    "api-key": ("https://h/a?x-api-key=hush", "https://h/a?***"),
    "subscription key": ("https://h/a?Ocp-Apim-Subscription-Key=hush", "https://h/a?***"),
    "semicolons": ("https://h/a?id=7;token=hush;part=2", "https://h/a?id=7;part=2&***"),
    "HTML": ("https://h/a?id=7&amp;token=hush", "https://h/a?id=7&***"),
    "encoded name": ("https://h/a?X%2DAmz%2DSignature=hush", "https://h/a?***"),
    "fragment": ("https://h/a#access_token=hush", "https://h/a#***"),
    "query and fragment": ("https://h/a?sig=hush#t=10", "https://h/a?***#t=10"),
    "parameter of a path": ("https://h/a;jsessionid=hush/b.mp3", "https://h/a;***/b.mp3"),
    "token of a bot": (f"https://t/file/bot1234567:{'hush' * 9}/a.oga", "https://t/file/***/a.oga"),
    "JSON Web Token": (f"https://h/a?x={JWT}", "https://h/a?***"),
    "JSON Web Token in the path": (f"https://h/{JWT}/a.mp3", "https://h/***/a.mp3"),
    "URL in a URL": (
        "https://proxy/?url=https%3A%2F%2Fme%3Ahush%40h%2Fa%3Fsig%3Dhush",
        "https://proxy/?url=https://***@h/a%3F***",
    ),
    "URL in a path": (
        "https://proxy/https://me:hush@h/a?sig=hush",
        "https://proxy/https://***@h/a?***",
    ),
    "encoded URL in a path": (
        "https://proxy/https%3A%2F%2Fme%3Ahush%40h%2Fa/info",
        "https://proxy/https:%2F%2F***@h%2Fa/info",
    ),
    "URL in a URL, not encoded": (
        "https://proxy/?token=hush&url=https://me:hush@h/a?sig=hush&id=7",
        "https://proxy/?url=https://***@h/a&id=7&***",
    ),
    "a second ?": ("https://h/a?id=7?token=hush", "https://h/a?id=7&***"),
    "fragment with a query": ("https://h/#/a?token=hush", "https://h/#/a&***"),
    "JSON": ("https:\\/\\/me:hush@h\\/a?id=7&sig=hush", "https:\\/\\/***@h\\/a?id=7&***"),
    "Aliyun CDN": ("https://h/a.mp3?auth_key=17-0-0-hush", "https://h/a.mp3?***"),
    "Dropbox": ("https://h/s/a.mp3?rlkey=hush&dl=1", "https://h/s/a.mp3?dl=1&***"),
    "nginx": ("https://h/a.mp3?md5=hush", "https://h/a.mp3?***"),
    "session": ("https://h/a.mp3?PHPSESSID=hush", "https://h/a.mp3?***"),
    "message": (
        "https://me:hush@h/a.mp3?sig=hush: cannot be read: [Errno 5] 'https://me:hush@h/a.mp3'",
        "https://***@h/a.mp3?***: cannot be read: [Errno 5] 'https://***@h/a.mp3'",
    ),
    "message with brackets": ("(see <https://h/a?token=hush>).", "(see <https://h/a?***>)."),
    "message of aiohttp": (
        "403, message='Forbidden', url='https://h/a?Signature=hush'",
        "403, message='Forbidden', url='https://h/a?***'",
    ),
    "two": ("ftp://a:hush@b/c, s3://d:hush@e/f", "ftp://***@b/c, s3://***@e/f"),
    "apostrophe": ("https://h/it's.mp3?token=hush", "https://h/it's.mp3?***"),
}

UNCHANGED = (
    *("a.mp3", "/home/me@work/a:b.mp3", "C:\\me@home\\a.wav", "talks/a?token=b.mp3", "-", ""),
    *("https://h/a.mp3", "https://h:80/@me/a.mp3", "https://h/a.mp3?id=7&t=10;part=2#t=1,2"),
    *("https://[::1]:8000/a", "https://h/a?key=", "https://h/a?token", "s3://bucket/a@b/c.mp3"),
    *("file:///home/me@work/a.mp3", "12:30 notes@work.mp3", "me@example.org: no such file"),
    *("https://h/%E4%B8%AD.mp3?lang=en", "memory://talks/a.mp3", "https://h/a?monkey_see=1"),
)


@pytest.mark.parametrize("form", FORMS)
def test_secrets_are_removed(form: str) -> None:
    url, expected = FORMS[form]
    shown = without_secrets(url)
    assert shown == expected
    assert without_secrets(shown) == shown
    assert has_secrets(url)
    assert not has_secrets(shown)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("frame", ["{}", "x: {}: y", "('{}',)", '{{"u": "{}"}}', "URL={}, z"])
def test_secrets_are_removed_inside_a_message(form: str, frame: str) -> None:
    shown = without_secrets(frame.format(FORMS[form][0]))
    assert "hush" not in shown
    assert shown.startswith(frame.partition("{}")[0].replace("{{", "{"))


@pytest.mark.parametrize("text", UNCHANGED)
def test_other_texts_are_unchanged(text: str) -> None:
    assert without_secrets(text) == text
    assert without_secrets(text, whole=True) == text
    assert identity_of(text) == text


@pytest.mark.parametrize("mark", [" ", '"', "<", "\n"])
def test_a_whole_url_may_contain_what_ends_a_url_in_a_message(mark: str) -> None:
    url = f"https://me:hu{mark}hush@h/my{mark}talk.mp3?a=1&sig=hu{mark}hush"
    assert without_secrets(url, whole=True) == f"https://***@h/my{mark}talk.mp3?a=1&***"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (f"https://b/a?{SIGNED}", f"https://b/a?{SIGNED.replace('hush', 'new')}", True),
        ("https://b/a?v=1&Signature=x&Expires=1", "https://b/a?v=1&Signature=y&Expires=2", True),
        ("https://b/a?v=1&Signature=x&Expires=1", "https://b/a?v=2&Signature=y&Expires=2", False),
        (f"https://b/a?{AZURE}", f"https://b/a?{AZURE.replace('2026', '2027')}", True),
        ("https://b/a?sig=x", "https://b/c?sig=x", False),
        # these may say which recording is meant
        ("https://h/get?token=x", "https://h/get?token=y", False),
        ("https://h/get?key=a.mp3", "https://h/get?key=b.mp3", False),
        ("https://h/a?st=1&se=2", "https://h/a?st=1&se=3", False),
        ("ftp://me@h/a.mp3", "ftp://you@h/a.mp3", False),
    ],
)
def test_urls_that_differ_only_in_their_signature_name_the_same_recording(
    one: str, other: str, *, same: bool
) -> None:
    assert (identity_of(one) == identity_of(other)) == same


def test_long_texts_take_little_time() -> None:
    for text in (
        "https://" + "a:" * 20_000 + "?" + "b=c&" * 20_000,
        "https://h/" * 20_000,
        "https:/" * 20_000,
        "https://h?a=" * 20_000,
        "a" * 100_000 + "://",
    ):
        assert without_secrets(text) == text
