"""Settings: from the environment (`STRANDLINE_*`) and from the command line, checked at once.

A value that is wrong stops the start with a sentence that names it; nothing is guessed.
"""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from core.errors import DomainUnavailable, InvalidInput
from core.ids import TENANT_PATTERN
from core.limits import CALLER_REQUESTS_PER_SECOND_MAX
from store.ports import Domain

#: A token shorter than this could be guessed; `openssl rand -hex 16` gives 32 characters.
TOKEN_CHARS_MIN = 16
_WEAK = ("password", "changeme", "secret", "token", "strandline", "letmein", "12345678", "test")


def default_data_folder() -> Path:
    """`$XDG_DATA_HOME/strandline`, or `~/.local/share/strandline`."""
    base = os.environ.get("XDG_DATA_HOME", "")
    if base and Path(base).is_absolute():
        return Path(base) / "strandline"
    try:
        home = Path.home()
    except RuntimeError as error:
        raise InvalidInput(
            "there is no home folder to keep data in; give --data or STRANDLINE_DATA",
            field="data",
        ) from error
    return home / ".local" / "share" / "strandline"


class Settings(BaseSettings):
    """Everything that may differ between two installations."""

    model_config = SettingsConfigDict(
        env_prefix="STRANDLINE_", frozen=True, extra="forbid", validate_default=True
    )

    data: Path = Field(
        default_factory=default_data_folder,
        description="data folder: log, blobs, projections, lock file",
    )
    store: str = Field(
        default="sqlite",
        description="which store: `sqlite` (in the data folder), or sqlite:///PATH of that folder",
    )
    host: str = Field(default="127.0.0.1", min_length=1, description="address to listen on")
    port: int = Field(default=8000, ge=0, le=65535, description="port; 0 lets the system choose")
    token: SecretStr | None = Field(
        default=None,
        description="credential of every request; needed to listen beyond this machine",
    )
    tenant: str = Field(
        default="local", pattern=TENANT_PATTERN, description="tenant of every caller of this server"
    )
    domain: Domain = Field(
        default="host", description="failure domain an acknowledgement names: process or host"
    )
    allow_unsafe_filesystem: bool = Field(
        default=False,
        description="use a file system that cannot keep the domain's promise; pages say so",
    )
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="further Host names this server answers to, comma separated"
    )
    watch: Annotated[tuple[Path, ...], NoDecode] = Field(
        default=(),
        description="folders whose sessions are taken in as they grow, separated like PATH",
    )
    caller_requests_per_second: int = Field(
        default=CALLER_REQUESTS_PER_SECOND_MAX, ge=1, description="one caller's rate before 429"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least severe line that is logged"
    )
    log_format: Literal["auto", "json", "text"] = Field(
        default="auto",
        description="how lines are logged, on standard error; auto: text on a terminal, else json",
    )

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip().lower() for part in value.split(",") if part.strip())
        return value

    @field_validator("watch", mode="before")
    @classmethod
    def _split_paths(cls, value: object) -> object:
        if isinstance(value, str):
            given = [part for part in value.split(os.pathsep) if part.strip()]
            return tuple(Path(part).expanduser().absolute() for part in given)
        return value

    @field_validator("token", mode="before")
    @classmethod
    def _token_present(cls, value: object) -> object:
        if isinstance(value, str) and not value.strip():
            raise ValueError("is empty; unset it, or give a token")
        return value

    @field_validator("token")
    @classmethod
    def _token_strong(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        text = value.get_secret_value()
        if not (text.isascii() and text.isprintable()) or " " in text:
            raise ValueError("may hold printable ASCII without spaces only")
        if len(text) < TOKEN_CHARS_MIN or len(set(text)) < 6:
            raise ValueError(f"is too weak: give at least {TOKEN_CHARS_MIN} random characters")
        if text.lower().strip("0123456789!-_.") in _WEAK:
            raise ValueError("is a well-known word; give random characters")
        return value

    @field_validator("domain")
    @classmethod
    def _domain_can_be_given(cls, value: Domain) -> Domain:
        if value == "volume":
            raise ValueError(
                "volume needs two durable copies outside this disk, which needs synchronous "
                "standbys; this build has none. Declare host"
            )
        return value

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def data_folder(self) -> Path:
        """The data folder, absolute; `store` may name it too."""
        if self.store == "sqlite":
            return self.data.expanduser().absolute()
        parts = urlsplit(self.store)
        if parts.scheme != "sqlite" or parts.netloc or not parts.path.strip("/"):
            raise InvalidInput(
                "STRANDLINE_STORE is `sqlite` or sqlite:///PATH of a data folder; this build has "
                "no other store",
                field="store",
            )
        return Path(unquote(parts.path)).absolute()

    def checked_to_serve(self) -> Settings:
        """Self, or InvalidInput where serving so would be open to strangers."""
        if not self.loopback and self.token is None:
            raise InvalidInput(
                f"{self.host} can be reached from other machines, and no token is set. Set "
                "STRANDLINE_TOKEN to a random text of at least "
                f"{TOKEN_CHARS_MIN} characters, or listen on 127.0.0.1",
                field="token",
            )
        return self


def load(**given: object) -> Settings:
    """Settings from `given` (None: not given) over the environment; InvalidInput in a sentence."""
    try:
        return Settings(**{key: value for key, value in given.items() if value is not None})  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = str(first["loc"][0]) if first["loc"] else "settings"
        reason = str(first["msg"]).removeprefix("Value error, ")
        shown = f"STRANDLINE_{name.upper()}"
        kind = DomainUnavailable if name == "domain" else InvalidInput
        raise kind(f"{shown} {reason}", field=name) from error
