"""SWR's names and logins, and what the job form wants to know."""

from __future__ import annotations

import subprocess

import pytest

from ma_boot.desk.image import swr
from ma_boot.desk.image.push import failure_of
from ma_boot.errors import ConfigError, UsageError

REGION = "cn-north-4"
HOST = "swr.cn-north-4.myhuaweicloud.com"
PAIR = {"SWR_USERNAME": "user", "SWR_PASSWORD": "planted-password"}
KEYS = {"OBS_ACCESS_KEY_ID": "AKPLANTED", "OBS_SECRET_ACCESS_KEY": "SKPLANTED"}
ENTRY = {"username": "configured", "password": "planted-entry"}


@pytest.mark.parametrize(
    ("image", "name", "tag"),
    [
        ("host:5000/me/training:v1", "training", "v1"),
        ("host:5000/a", "a", "latest"),
        ("a@sha256:0", "a", "latest"),
    ],
)
def test_the_name_of_the_local_image_is_the_default(image: str, name: str, tag: str) -> None:
    target = swr.push_target(image, REGION, "org", name=None, tag=None, registry=None)
    assert (target.repository, target.image_url) == (f"{HOST}/org/{name}", f"org/{name}:{tag}")


def test_name_tag_and_registry_can_be_given() -> None:
    target = swr.push_target("a:b", REGION, "org", name="group/name", tag="v2", registry="127.0.0.1:5000")
    assert target == swr.Target("127.0.0.1:5000", "org", "group/name", "v2")


def test_all_invalid_parts_are_reported_together() -> None:
    with pytest.raises(UsageError) as raised:
        swr.push_target("a", "cn north/4", "Org", name="UPPER", tag="-x", registry="https://host")
    options = ("--region", "--organization", "--name", "--tag", "--registry")
    assert [option for option in options if option not in str(raised.value)] == []


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
    environ: dict[str, str], entry: dict[str, str] | None, user: str, origin: str
) -> None:
    login = swr.push_login(environ, entry, REGION, HOST)
    assert login.user == user
    assert origin in login.origin
    assert login.password not in repr(login)


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({}, "not set"),
        ({"SWR_USERNAME": "user"}, "only the user is set"),
        ({**KEYS, "OBS_SECURITY_TOKEN": "planted"}, "temporary, so no login can be made"),
    ],
)
def test_missing_login_lists_the_places_searched(environ: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError) as raised:
        swr.push_login(environ, None, REGION, HOST)
    assert reason in str(raised.value)
    assert "Generate Login Command" in str(raised.value)
    assert "planted" not in str(raised.value)


def test_wrongly_copied_keys_make_no_login() -> None:
    with pytest.raises(ConfigError) as raised:
        swr.push_login({name: f'"{value}"' for name, value in KEYS.items()}, None, REGION, HOST)
    for name in KEYS:
        assert f"{name}: found quotes around it" in str(raised.value)
    assert "PLANTED" not in str(raised.value)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("dial tcp 127.0.0.1:40311: connect: connection refused", "did not respond as a registry"),
        ("unauthorized: authentication required", "rejected user (from SWR_USERNAME"),
        ("received unexpected HTTP status: 403 Forbidden", "rejected user (from SWR_USERNAME"),
        ("denied: you may not, with planted-password", "rejected user (from SWR_USERNAME"),
    ],
)
def test_failed_push_names_login_or_connection(answer: str, message: str) -> None:
    login = swr.Login("user", "planted-password", "SWR_USERNAME and SWR_PASSWORD")
    error = str(failure_of(answer, swr.Target("127.0.0.1:40311", "org", "training", "v1"), login))
    assert message in error
    assert "planted-password" not in error
