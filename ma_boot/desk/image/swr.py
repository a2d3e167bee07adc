"""SWR, the registry from which ModelArts pulls images: names, logins, values for the job form. Pure."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ma_boot.errors import ConfigError, UsageError, listed
from ma_boot.platform.modelarts.job import PLATFORM_UID
from path_mapping.stores.access import KEY_VARIABLES, key_problems

_ORGANIZATION = re.compile(r"[a-z][a-z0-9._-]*[a-z0-9]|[a-z]")
_NAME = re.compile(r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*")
_REGION = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_HOST = re.compile(r"[\w.-]+(:\d+)?", re.ASCII)
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)


@dataclass(frozen=True)
class Target:
    """The name of an image in SWR."""

    host: str
    organization: str
    name: str
    tag: str

    @property
    def repository(self) -> str:
        """The name without the tag."""
        return f"{self.host}/{self.organization}/{self.name}"

    @property
    def image_url(self) -> str:
        """The name without the registry, as in `engine.image_url` of a training job."""
        return f"{self.organization}/{self.name}:{self.tag}"


@dataclass(frozen=True)
class Login:
    """User and password for the registry, and their source; `repr` omits the password."""

    user: str
    password: str = field(repr=False)
    origin: str


def push_target(
    image: str,
    region: str,
    organization: str,
    *,
    name: str | None,
    tag: str | None,
    registry: str | None,
) -> Target:
    """Returns the target of a push; name and tag default to those of the local image.

    Raises `UsageError` with every part that SWR would reject.
    """
    own_name, _, own_tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    host = registry or f"swr.{region}.myhuaweicloud.com"
    target = Target(host, organization, name or own_name, tag or own_tag or "latest")
    parts = (
        ("--region", region, _REGION, "one such as cn-north-4"),
        ("--organization", target.organization, _ORGANIZATION, "lowercase letters, digits and ._-"),
        ("--name", target.name, _NAME, "lowercase letters, digits and ._/-"),
        ("--tag", target.tag, _TAG, "at most 128 letters, digits and ._-"),
        ("--registry", registry or "unset", _HOST, "HOST or HOST:PORT, without https://"),
    )
    wrong = [
        f"{option} {value!r}: expected {rule}"
        for option, value, form, rule in parts
        if not form.fullmatch(value)
    ]
    if wrong:
        raise UsageError(listed("invalid name for SWR:", wrong))
    return target


def push_login(
    environ: Mapping[str, str], configured: Mapping[str, str] | None, region: str, host: str
) -> Login:
    """Returns the login for a push.

    The first of: SWR_USERNAME and SWR_PASSWORD; `configured`, the docker config's entry for the registry;
    SWR's long-term login, whose password is the HMAC-SHA256 of OBS_ACCESS_KEY_ID with OBS_SECRET_ACCESS_KEY,
    in hex.

    Raises `ConfigError` that lists what was missing.
    """
    user, password = environ.get("SWR_USERNAME"), environ.get("SWR_PASSWORD")
    if user and password:
        return Login(user, password, "SWR_USERNAME and SWR_PASSWORD")
    name, secret = _configured(configured)
    if name and secret:
        return Login(name, secret, f"the docker config's entry for {host}")
    access_key, secret_key = environ.get("OBS_ACCESS_KEY_ID"), environ.get("OBS_SECRET_ACCESS_KEY")
    temporary = environ.get("OBS_SECURITY_TOKEN")
    problems = key_problems({name: environ.get(name, "") for name in KEY_VARIABLES})
    if problems:
        raise ConfigError(listed(f"no credentials for {host}; of the variables", problems))
    if access_key and secret_key and not temporary:
        made = hmac.new(secret_key.encode(), access_key.encode(), hashlib.sha256).hexdigest()
        return Login(f"{region}@{access_key}", made, "OBS_ACCESS_KEY_ID and OBS_SECRET_ACCESS_KEY")
    keys = "temporary, so no login can be made from them" if temporary else "not set"
    raise ConfigError(
        listed(
            f"no credentials for {host}; looked for",
            [
                f"SWR_USERNAME and SWR_PASSWORD: {_which(user, password)}",
                f"an entry for {host} in the docker config: none",
                f"OBS_ACCESS_KEY_ID and OBS_SECRET_ACCESS_KEY: {keys}",
                "SWR's console offers a login command (Generate Login Command): run it, or set SWR_USERNAME "
                "and SWR_PASSWORD to its -u and -p",
            ],
        )
    )


def job_form(pushed: Target, digest: str, architecture: str, command: str) -> str:
    """Formats the values for ModelArts' job form."""
    rows = [
        ("image", pushed.image_url),
        ("pull", f"{pushed.repository}@{digest}"),
        (
            "architecture",
            f"{architecture}: choose a flavor whose servers have it (most Ascend servers: aarch64)",
        ),
        ("boot command", command),
        ("user id", str(PLATFORM_UID)),
        ("environment", "RANK_TABLE_FILE=/user/config on NPUs; with a path mapping OBS_ENDPOINT,"),
        ("", "OBS_ACCESS_KEY_ID and OBS_SECRET_ACCESS_KEY; no names that begin with MA_"),
    ]
    return "\n".join(f"{name:14}{value}" for name, value in rows)


def _configured(entry: Mapping[str, str] | None) -> tuple[str | None, str | None]:
    """User and password; docker-py's keys are lowercase, those of credential stores capitalized."""
    lowered = {key.lower(): value for key, value in (entry or {}).items()}
    return lowered.get("username"), lowered.get("password") or lowered.get("secret")


def _which(user: str | None, password: str | None) -> str:
    if not user and not password:
        return "not set"
    return "only the user is set" if user else "only the password is set"
