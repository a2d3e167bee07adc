"""SWR's names and logins, and what the job form wants to know."""

from __future__ import annotations

import subprocess
from typing import Dict, Optional

import pytest

from ma_boot.errors import ConfigError, UsageError
from ma_boot.image import swr
from ma_boot.image.push import failure_of

REGION = "cn-north-4"
HOST = "swr.cn-north-4.myhuaweicloud.com"
PAIR = {"SWR_USERNAME": "user", "SWR_PASSWORD": "planted-password"}
KEYS = {"OBS_ACCESS_KEY_ID": "AKPLANTED", "OBS_SECRET_ACCESS_KEY": "SKPLANTED"}
ENTRY = {"username": "configured", "password": "planted-entry"}


def test_the_name_of_the_local_image_is_the_default() -> None:
    found = swr.push_target("host:5000/me/training:v1", REGION, "org", None, None, None)
    assert found == swr.Target(HOST, "org", "training", "v1")
    assert found.repository == f"{HOST}/org/training"
    assert found.image_url == "org/training:v1"


@pytest.mark.parametrize(
    ("image", "tag"), [("a", "latest"), ("a:b", "b"), ("h:5000/a", "latest"), ("a@sha256:0", "latest")]
)
def test_tag_of_the_local_image(image: str, tag: str) -> None:
    assert swr.push_target(image, REGION, "org", None, None, None).tag == tag


def test_name_tag_and_registry_can_be_given() -> None:
    found = swr.push_target("a:b", REGION, "org", "group/name", "v2", "127.0.0.1:5000")
    assert found == swr.Target("127.0.0.1:5000", "org", "group/name", "v2")


def test_every_wrong_part_is_named_at_once() -> None:
    with pytest.raises(UsageError) as raised:
        swr.push_target("a", REGION, "Org", "UPPER", "-x", "https://host")
    assert all(option in str(raised.value) for option in ("--organization", "--name", "--tag", "--registry"))


def test_a_region_is_part_of_a_host_name() -> None:
    with pytest.raises(UsageError, match="--region"):
        swr.push_target("a", "cn north/4", "org", None, None, None)


def test_the_long_term_login_is_what_the_documented_command_makes() -> None:
    documented = (
        "printf AKPLANTED | openssl dgst -binary -sha256 -hmac SKPLANTED | od -An -vtx1 | tr -d ' \\n'"
    )
    password = subprocess.run(["sh", "-c", documented], capture_output=True, text=True, check=True).stdout
    assert swr.push_login(KEYS, None, REGION, HOST).password == password


@pytest.mark.parametrize(
    ("environ", "entry", "user", "origin"),
    [
        ({**PAIR, **KEYS}, ENTRY, "user", "SWR_USERNAME"),
        (KEYS, ENTRY, "configured", "docker config"),
        (KEYS, None, f"{REGION}@AKPLANTED", "OBS_ACCESS_KEY_ID"),
        ({}, {"Username": "store", "Secret": "planted"}, "store", "docker config"),
    ],
)
def test_the_order_of_logins(
    environ: Dict[str, str], entry: Optional[Dict[str, str]], user: str, origin: str
) -> None:
    found = swr.push_login(environ, entry, REGION, HOST)
    assert found.user == user
    assert origin in found.origin
    assert found.password not in repr(found)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "not set"),
        ({"SWR_USERNAME": "user"}, "only the user is set"),
        ({**KEYS, "OBS_SECURITY_TOKEN": "planted"}, "temporary, so no login can be made"),
    ],
)
def test_no_login_says_what_was_looked_for(environ: Dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        swr.push_login(environ, None, REGION, HOST)
    assert said in str(raised.value)
    assert "Generate Login Command" in str(raised.value)
    assert "planted" not in str(raised.value)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("dial tcp 127.0.0.1:40311: connect: connection refused", "did not respond as a registry"),
        ("unauthorized: authentication required", "rejected user (from SWR_USERNAME"),
        ("received unexpected HTTP status: 403 Forbidden", "rejected user (from SWR_USERNAME"),
        ("denied: you may not, with planted-password", "rejected user (from SWR_USERNAME"),
    ],
)
def test_who_is_at_fault(said: str, told: str) -> None:
    login = swr.Login("user", "planted-password", "SWR_USERNAME and SWR_PASSWORD")
    error = str(failure_of(said, swr.Target("127.0.0.1:40311", "org", "training", "v1"), login))
    assert told in error
    assert "planted-password" not in error
