"""The settings of the server: flags, environment variables, and the names that Hugging Face uses.

--max-requests 64   or   WHISPERBATCH_MAX_REQUESTS=64
ASR_MODEL, HF_MODEL_DIR, ASSISTANT_MODEL   the models, in a container of Hugging Face
"""

import json
import os
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal, cast

from pydantic import ByteSize, Field, SecretStr
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

import whisperbatch as wb
from whisperbatch.engines.settings import EngineName, LoadKeywords, settings_of
from whisperbatch.huggingface import EndpointSettings, with_draft_model
from whisperbatch.options import documented_fields, resolve
from whisperbatch.server.browsers import is_local
from whisperbatch.server.clients import Client, Keys, read_keys
from whisperbatch.server.fields import MAX_BEAMS
from whisperbatch.server.logs import LogFormat, LogLevel
from whisperbatch.server.uploads import Spool, UploadLimits
from whisperbatch.text import shown

PREFIX: Final = "WHISPERBATCH_"
OTHER_VARIABLES: Final = {"WHISPERBATCH_CACHE"}  # of the library


class ServerSettings(BaseSettings):
    """The settings of `whisperbatch serve`.

    Attributes:
        model: the models: names, directories or repositories, separated by commas. The first is the
            default.
        assistant_model: draft model for requests with "assisted" (Hugging Face); needs PyTorch.
        host: addresses to listen on, separated by commas. 127.0.0.1 and ::1 are reached from this
            machine only; 0.0.0.0 is every IPv4 address, and :: every IPv6 and IPv4 address.
        port: port to listen on.
        uds: path of a Unix socket to listen on, in place of host and port.
        root_path: path of the server at its proxy, such as /speech. Requests may have it or not.
        tls_cert: file with the certificate (PEM); the server then speaks HTTPS.
        tls_key: file with the key of the certificate, if tls_cert does not have it.
        device: as in `load`.
        engine: as in `load`.
        engine_settings: more keywords of `load`, as a JSON object: {"inter_threads": 2}.
        options: default options of a transcription, as a JSON object.
        api_key: key that clients must send.
        api_keys_file: file with one key in each line, and the name and limits of its client after
            the key; lines with # are comments.
        max_upload: largest file, in bytes; units such as 500MB are allowed.
        max_duration: longest recording, in seconds.
        max_requests: number of requests that are uploaded, wait or are transcribed; more requests
            get the status 429.
        max_client_requests: number of these of one client: of one key, or of one address if no keys
            are given. Half of max_requests if it is not given.
        max_wait: when a recording of more than two minutes would wait longer for its turn, in
            seconds, it gets the status 429. The wait is estimated.
        max_beams: largest `beam_size` and `best_of` of a request. The batch size of a request is at
            most that of the server.
        max_time: longest time of a request after its upload, in seconds.
        max_sessions: number of live sessions (/v1/realtime) that are open at a time; more sessions
            get the status 429. One client may have half of them.
        max_session: longest time of a live session, in seconds.
        session_idle: a live session without audio for so many seconds is closed.
        upload_timeout: longest time of an upload, in seconds.
        idle_timeout: longest time without data during an upload, in seconds.
        min_upload_rate: an upload that is slower gets the status 408, in bytes a second, on average
            over idle_timeout.
        max_memory: when the process needs more memory, models without requests are closed.
        shutdown_timeout: seconds that running requests have after SIGTERM.
        upload_directory: directory for uploads; the system's directory for temporary files if it is
            not given.
        allow_origins: origins from which browsers may send requests (CORS), separated by commas.
        log_format: "text" or "json".
        log_level: lowest level of lines in the log: "debug", "info", "warning" or "error".
        otel: make a span of OpenTelemetry for each request; needs the extra `telemetry`.
        alias: more names of models for clients, separated by commas: whisper-1=base,fast=tiny.en.
        model_ttl: a model without requests for so many seconds is closed, and loaded again by the
            next request. 0: models stay loaded.
        admin_key: key for /api/load and /api/unload; without it, these paths are refused.
        allow_urls: prefixes of URLs that requests may name in place of a file, separated by commas:
            https://example.com/,https://*.example.org/media/. Hosts with private addresses are
            always refused. Empty: no URL is opened.
        page: answer browsers at / with a page to speak, and to transcribe files. Otherwise they
            get the health answer, as programs do.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        cli_prog_name="whisperbatch serve",
        cli_kebab_case=True,
        cli_hide_none_type=True,
        cli_implicit_flags=True,
        extra="forbid",
    )

    model: str = Field("base", min_length=1)
    assistant_model: str | None = None
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    uds: Path | None = None
    root_path: str = Field("", pattern=r"^(/[\w.~-]+)*$")
    tls_cert: Path | None = None
    tls_key: Path | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    engine: EngineName = "auto"
    engine_settings: str = "{}"
    options: str = "{}"
    api_key: SecretStr | None = None
    api_keys_file: Path | None = None
    max_upload: ByteSize = Field(ByteSize(2_000_000_000), ge=1)
    max_duration: float = Field(6 * 3600.0, gt=0)
    max_requests: int = Field(256, ge=1)
    max_client_requests: int | None = Field(None, ge=1)
    max_wait: float = Field(3600.0, gt=0)
    max_beams: int = Field(MAX_BEAMS, ge=1)
    max_time: float = Field(4 * 3600.0, gt=0)
    max_sessions: int = Field(64, ge=1)
    max_session: float = Field(6 * 3600.0, gt=0)
    session_idle: float = Field(300.0, gt=0)
    upload_timeout: float = Field(3600.0, gt=0)
    idle_timeout: float = Field(60.0, gt=0)
    min_upload_rate: float = Field(1000.0, ge=0)
    max_memory: ByteSize | None = None
    shutdown_timeout: float = Field(60.0, ge=0)
    upload_directory: Path | None = None
    allow_origins: str = ""
    log_format: LogFormat = "text"
    log_level: LogLevel = "info"
    otel: bool = False
    alias: str = ""
    model_ttl: float = Field(0.0, ge=0)
    admin_key: SecretStr | None = Field(None, min_length=1)
    allow_urls: str = ""
    page: bool = True

    @property
    def models(self) -> tuple[str, ...]:
        """The models, the default first.

        Raises:
            OptionError: no model is named.
        """
        models = _parts(self.model)
        if not models:
            raise wb.OptionError("model names no model")
        return models

    @property
    def aliases(self) -> dict[str, str]:
        """More names of models for clients; name -> model.

        Raises:
            OptionError: an alias is not of the form name=model, or is given twice.
        """
        aliases: dict[str, str] = {}
        for part in _parts(self.alias):
            alias, _, model = (text.strip() for text in part.partition("="))
            if not alias or not model:
                raise wb.OptionError(f"alias: {shown(part)} must be of the form name=model")
            if alias in aliases:
                raise wb.OptionError(f"alias: {shown(alias)} is given twice")
            aliases[alias] = model
        return aliases

    @property
    def allowed_urls(self) -> tuple[str, ...]:
        """Prefixes of URLs that requests may name in place of a file."""
        return _parts(self.allow_urls)

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins from which browsers may send requests."""
        return _parts(self.allow_origins)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - of the base class
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - of the base class
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Add the variables of Hugging Face, after all other sources."""
        endpoint = EndpointSettings.from_environment()
        found = {"model": endpoint.model, "assistant_model": endpoint.assistant_model}
        given = {name: value for name, value in found.items() if value}
        return init_settings, env_settings, InitSettingsSource(settings_cls, given)

    @property
    def upload_limits(self) -> UploadLimits:
        """How slow an upload may be."""
        return UploadLimits(self.idle_timeout, self.upload_timeout, self.min_upload_rate)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The addresses to listen on.

        Raises:
            OptionError: there is none.
        """
        hosts = _parts(self.host)
        if not hosts:
            raise wb.OptionError("host names no address")
        return hosts

    @property
    def is_local(self) -> bool:
        """Whether programs on other machines cannot connect."""
        return self.uds is not None or all(map(is_local, self.hosts))

    def keys(self) -> Keys:
        """Return the keys that clients may send; none if no key is needed.

        Raises:
            OptionError: the file with the keys cannot be read, is wrong, or has no key.
        """
        keys = dict[str, Client]()
        if self.api_key is not None:
            if not (key := self.api_key.get_secret_value().strip()):
                raise wb.OptionError("api_key is empty: give a key, or leave the setting out")
            keys[key] = Client("api_key", has_key=True)
        if self.api_keys_file:
            try:
                lines = self.api_keys_file.read_text(encoding="utf-8-sig").splitlines()
            except OSError as error:
                raise wb.OptionError(f"api_keys_file cannot be read: {error}") from error
            except UnicodeDecodeError as error:  # its message would show a part of the file
                raise wb.OptionError("api_keys_file must be in UTF-8") from error
            found = read_keys(lines, f"api_keys_file {self.api_keys_file}")
            if not found:
                raise wb.OptionError(f"api_keys_file: {self.api_keys_file} has no key")
            keys |= found
        return Keys(keys)

    def check(self) -> None:
        """Check the settings that are only used later, before a model is loaded.

        Raises:
            OptionError: the directory for uploads cannot be used, or a setting of the engine is
                wrong.
        """
        try:
            Spool("", self.upload_directory).close()
        except OSError as error:
            raise wb.OptionError(f"upload_directory cannot be used: {error}") from error
        settings_of(self._keywords())
        if self.tls_key and not self.tls_cert:
            raise wb.OptionError("tls_key has no effect without tls_cert")

    def warnings(self) -> Iterator[str]:
        """Yield what is allowed, but probably not meant."""
        if not self.keys() and not self.is_local:
            yield (
                f"everybody who reaches {self.host} can use this server, because no key is set: "
                "set api_key or api_keys_file"
            )
        known = {f"{PREFIX}{name}".upper() for name in type(self).model_fields} | OTHER_VARIABLES
        for name in os.environ:
            if name.upper().startswith(PREFIX) and name.upper() not in known:
                near = get_close_matches(name.upper(), known, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                yield f"the variable {name[:100]} has no effect{hint}"

    def default_options(self) -> wb.Options:
        """Return the options of a request without fields.

        Raises:
            OptionError: an option is unknown or wrong.
        """
        given = self.given_options()
        return resolve(None, **{"max_duration": self.max_duration, **given})

    def given_options(self) -> dict[str, Any]:
        """Return the options of the setting `options` alone, by name.

        Raises:
            OptionError: the setting is no JSON object.
        """
        return _object(self.options, "options")

    def endpoint_options(self) -> wb.Options:
        """Return the options of a request without parameters, in the form of Hugging Face.

        Raises:
            OptionError: an option is unknown or wrong, or DIARIZATION_MODEL is wrong.
        """
        return EndpointSettings.from_environment().with_speakers(self.default_options())

    def load(self, source: str) -> wb.Transcriber:
        """Load a model.

        Args:
            source: as in `load`.

        Returns:
            The loaded model.

        Raises:
            WhisperBatchError: the model cannot be loaded.
        """
        return wb.load(source, **self._keywords())

    def load_assisted(self, source: str) -> wb.Transcriber:
        """Load a model with the draft model.

        Args:
            source: as in `load`.

        Returns:
            The loaded model; its engine is PyTorch.

        Raises:
            WhisperBatchError: the model or the draft model cannot be loaded.
        """
        if not self.assistant_model:
            raise AssertionError
        return wb.load(source, **with_draft_model(self.assistant_model, self._keywords()))

    def _keywords(self) -> LoadKeywords:
        more = _object(self.engine_settings, "engine_settings")
        return cast("LoadKeywords", {"device": self.device, "engine": self.engine, **more})


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _object(text: str, name: str) -> dict[str, Any]:
    """Return a JSON object.

    Raises:
        OptionError: the text is no JSON object.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise wb.OptionError(f"{name} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise wb.OptionError(f'{name} must be a JSON object, such as {{"name": 1}}')
    return value


for _name, _text in documented_fields(ServerSettings).items():
    ServerSettings.model_fields[_name].description = _text  # for --help
