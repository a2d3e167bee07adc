"""Who asks which ModelArts: credentials, region, endpoint and project, as Huawei's own tools name them."""

from __future__ import annotations

import configparser
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Mapping, Optional

from ma_boot.errors import ConfigError, listed
from path_mapping.errors import CredentialsMissing
from path_mapping.stores import read_credentials

_REGIONS = ("HUAWEICLOUD_SDK_REGION", "HW_REGION_NAME", "OS_REGION_NAME")
_KEYS = (  # access key, secret key, token: of Huawei's SDK, of path_mapping, of Terraform's provider
    ("HUAWEICLOUD_SDK_AK", "HUAWEICLOUD_SDK_SK", "HUAWEICLOUD_SDK_SECURITY_TOKEN"),
    ("OBS_ACCESS_KEY_ID", "OBS_SECRET_ACCESS_KEY", "OBS_SECURITY_TOKEN"),
    ("HW_ACCESS_KEY", "HW_SECRET_KEY", "HW_SECURITY_TOKEN"),
)
_ENDPOINT = re.compile(r"(?:https?://)?(?:modelarts|obs)\.([a-z0-9-]+)\.myhuaweicloud\.(?:com|cn|eu)/?")


@dataclass(frozen=True)
class ApiAccess:
    """Everything that a request to ModelArts needs; without a `project_id` the SDK asks IAM for it.

    `origin` says where the keys are from.
    """

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    token: Optional[str] = field(repr=False)
    origin: str
    endpoint: str
    region: str
    project_id: str
    iam_endpoint: str


def endpoint_of_region(region: str) -> str:
    """The endpoint of ModelArts in a region, as in the table of Huawei's SDK."""
    return f"https://modelarts.{region}.myhuaweicloud.{'cn' if region == 'ap-southeast-1' else 'com'}"


def api_access(environ: Mapping[str, str]) -> ApiAccess:
    """The access that variables describe; the keys may be in `~/.huaweicloud/credentials`.

    Raises:
        ConfigError: something is missing: all of it.
    """
    problems: List[str] = []
    profile = _profile(environ, problems)
    own = environ.get("MODELARTS_ENDPOINT", "")
    by_name = next((environ[name] for name in _REGIONS if environ.get(name)), "")
    where = by_name or _region_of(own) or _region_of(environ.get("OBS_ENDPOINT", ""))
    keys = _keys(environ, profile, problems)
    project = environ.get("HUAWEICLOUD_SDK_PROJECT_ID") or profile.get("project_id", "")
    if keys is None and not environ.get("OBS_CREDENTIALS_FILE"):
        names = ", or ".join(f"{ak} and {sk}" for ak, sk, _ in _KEYS)
        others = "OBS_CREDENTIALS_FILE, or ak and sk in [basic] of ~/.huaweicloud/credentials"
        problems.append(f"keys: set {names}, or {others}")
    if not where and not own:
        problems.append(f"region: set {_REGIONS[0]} to the region of the job, e.g. cn-north-4")
    elif not where and not project:
        problems.append(
            f"project: set HUAWEICLOUD_SDK_PROJECT_ID, or {_REGIONS[0]} for a project of this name"
        )
    if problems or keys is None:
        raise ConfigError(listed("ModelArts cannot be reached; missing", problems))
    address = own or endpoint_of_region(where)
    return ApiAccess(
        *keys,
        endpoint=(address if "://" in address else f"https://{address}").rstrip("/"),
        region=where,
        project_id=project,
        iam_endpoint=environ.get("HUAWEICLOUD_SDK_IAM_ENDPOINT") or profile.get("iam_endpoint", ""),
    )


def _region_of(endpoint: str) -> str:
    found = _ENDPOINT.fullmatch(endpoint)
    return found[1] if found else ""


def _keys(
    environ: Mapping[str, str], profile: Mapping[str, str], problems: List[str]
) -> Optional[tuple[str, str, Optional[str], str]]:
    """Access key, secret key, token and where they are from; the pair that is complete first."""
    own, *others = _KEYS
    file = environ.get("OBS_CREDENTIALS_FILE")
    if file and not (environ.get(own[0]) and environ.get(own[1])):
        try:
            found = read_credentials(Path(file))
        except CredentialsMissing as error:
            problems.append(str(error))
            return None
        return found.access_key, found.secret_key, found.token, "OBS_CREDENTIALS_FILE"
    for ak, sk, token in (own, *others):
        if environ.get(ak) and environ.get(sk):
            return environ[ak], environ[sk], environ.get(token) or None, f"{ak} and {sk}"
    if profile.get("ak") and profile.get("sk"):
        return profile["ak"], profile["sk"], profile.get("security_token") or None, "the credentials file"
    return None


def _profile(environ: Mapping[str, str], problems: List[str]) -> Dict[str, str]:
    """The section `[basic]` of the SDK's own file of credentials; empty without one."""
    name = environ.get("HUAWEICLOUD_SDK_CREDENTIALS_FILE")
    home = environ.get("HOME")
    path = Path(name) if name else Path(home, ".huaweicloud", "credentials") if home else None
    if path is None or not path.is_file():
        return {}
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(path, encoding="utf-8")
    except (OSError, configparser.Error, UnicodeDecodeError) as error:
        problems.append(f"{path} cannot be read: {type(error).__name__}")  # its text may quote a key
        return {}
    return dict(parser["basic"]) if parser.has_section("basic") else {}
