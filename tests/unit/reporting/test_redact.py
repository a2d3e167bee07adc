"""Secrets are masked."""

from __future__ import annotations

import time
import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ma_boot.redact import MASK, masked, secret_values, without_secret_words, without_secrets

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
def test_an_empty_value_is_not_masked(value: str | None) -> None:
    assert masked({"TOKEN": value}) == {"TOKEN": value}


@given(st.from_regex(r"[A-Za-z0-9:_]{8,20}", fullmatch=True))
def test_the_login_of_a_url_is_masked(login: str) -> None:
    shown = masked({"PIP_INDEX": f"https://{login}@host.example/simple"})["PIP_INDEX"]
    assert shown == f"https://{MASK}@host.example/simple"


@pytest.mark.parametrize(
    "text",
    [
        "password=planted-1", 'obs_secret_access_key: "planted-1"', "X-Auth-Token: planted-1", "'api_key': 'planted-1'",
        "https://me:planted-1@host/x", "GET /b/k?AWSAccessKeyId=planted-1&Signature=planted%2B1&Expires=1",
        "?X-Amz-Security-Token=planted-1&x-obs-security-token=planted-1", "Authorization: OBS planted-1:planted=",
        "the value is PLANTED of the environment",
    ],
)  # fmt: skip
def test_a_secret_in_a_text_is_masked(text: str) -> None:
    shown = without_secrets(text, ["PLANTED of"])
    assert "planted" not in shown.lower()
    assert MASK in shown


@pytest.mark.parametrize(
    "text",
    ["tokens: 4096", "tokens/s = 12345678.9", "token: short", "secretary = some", "epoch 3 loss: 0.12345678", "a@b.example"],
)  # fmt: skip
def test_other_text_is_kept(text: str) -> None:
    assert without_secrets(text, []) == text


def test_secret_values_of_the_environment_have_a_minimum_length() -> None:
    environ = {
        "OBS_SECRET_ACCESS_KEY": "planted",
        "TOKEN": "on",
        "PATH": "/usr/bin",
        "A_TOKEN": "planted-and-more",
    }
    assert secret_values(environ) == ["planted-and-more", "planted"]


@pytest.mark.parametrize(
    "part", ["a", "token", "token=", "://", "?sig=", "secret ", "access_key:1", "=", "\"'"]
)
def test_masking_takes_linear_time(part: str) -> None:
    """Otherwise a long log would hold up the page."""

    def seconds(size: int) -> float:
        text = part * (size // len(part))
        return min(
            timeit.repeat(lambda: without_secrets(text, []), timer=time.process_time, number=1, repeat=5)
        )

    assert seconds(400_000) < 40 * (seconds(40_000) + 0.001)


@given(st.text(), st.lists(st.text(min_size=1), max_size=3))
def test_any_text_can_be_masked_again(text: str, values: list[str]) -> None:
    without_secrets(without_secrets(text, values), values)


def test_of_a_command_line_secrets_are_masked_and_figures_stay() -> None:
    words = [
        "--token", "abc", "--password=hunter2", "WANDB_API_KEY=x1", "--max-tokens", "4096", "--token", "7",
        "--tokenizer-model", "bpe.model", "train.py", "--secret", "--lr", "0.1",
    ]  # fmt: skip
    assert without_secret_words(words) == [
        "--token", "******", "--password=******", "WANDB_API_KEY=******", "--max-tokens", "4096", "--token", "7",
        "--tokenizer-model", "bpe.model", "train.py", "--secret", "--lr", "0.1",
    ]  # fmt: skip
