"""Secrets stay out of what is printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ma_boot.secrets import MASK, masked

SECRET = ["OBS_SECRET_ACCESS_KEY", "OBS_ACCESS_KEY_ID", "OBS_SECURITY_TOKEN", "AK", "MY_SK", "PASSWORD"]
SECRET += ["db_passwd", "WANDB_API_KEY", "AWS_ACCESS_KEY_ID", "X_SIGNATURE", "GIT_CREDENTIALS", "PRIVATE_KEY"]
PLAIN = ["PATH", "TASK", "MASK_RATIO", "RANK_ID", "KEYBOARD", "MONKEY", "BREAKPOINT", "DESK"]


@pytest.mark.parametrize("name", SECRET)
def test_a_secret_is_masked(name: str) -> None:
    assert masked({name: "planted"}) == {name: MASK}


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_variable_is_shown(name: str) -> None:
    assert masked({name: "shown"}) == {name: "shown"}


@pytest.mark.parametrize("value", [None, ""])
def test_nothing_is_no_secret(value: str | None) -> None:
    assert masked({"TOKEN": value}) == {"TOKEN": value}


@given(st.from_regex(r"[A-Za-z0-9:_]{8,20}", fullmatch=True))
def test_the_login_of_a_url_is_masked(login: str) -> None:
    shown = masked({"PIP_INDEX": f"https://{login}@host.example/simple"})["PIP_INDEX"]
    assert shown == f"https://{MASK}@host.example/simple"
