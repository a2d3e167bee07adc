"""Secrets are masked."""

from __future__ import annotations

import time
import timeit

import pytest
from hypothesis import given, strategies as st

from ma_boot.redact import MASK, is_secret, masked, remember_secrets, without_secret_words, without_secrets

SECRET = ["OBS_SECRET_ACCESS_KEY", "OBS_ACCESS_KEY_ID", "OBS_SECURITY_TOKEN", "AK", "MY_SK", "PASSWORD"]
SECRET += ["db_passwd", "WANDB_API_KEY", "AWS_ACCESS_KEY_ID", "X_SIGNATURE", "GIT_CREDENTIALS", "PRIVATE_KEY"]
PLAIN = ["PATH", "TASK", "MASK_RATIO", "RANK_ID", "KEYBOARD", "MONKEY", "BREAKPOINT", "DESK", "PWD"]


@pytest.mark.invariant("No secret in a line, a plan, a page, an error or a message between processes")
@pytest.mark.parametrize("name", SECRET)
def test_a_secret_is_masked(name: str) -> None:
    assert masked({name: "planted"}) == {name: MASK}


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_variable_is_shown(name: str) -> None:
    assert masked({name: "shown"}) == {name: "shown"}


@pytest.mark.parametrize(
    "name", ["wandb key", "api key", "access key", "ak", "sk", "secret key", "hf token", "db password"]
)
@pytest.mark.parametrize("between", ["_", "-", ".", "camelCase", "UPPER_CASE"])
def test_the_words_of_a_name_tell(name: str, between: str) -> None:
    first, *others = name.split()
    if between == "camelCase":
        name = "".join([first, *map(str.capitalize, others)])
    else:
        name = (
            "_".join([first, *others]).upper() if between == "UPPER_CASE" else between.join([first, *others])
        )
    for spelt in (name, f"--{name}", f"my{between}{name}" if between in "_-." else name):
        assert is_secret(spelt, "planted")
        assert "planted" not in without_secrets(
            f'x {spelt}=planted y {spelt}: planted; "{spelt}": "planted",'
        )
        assert "planted" not in without_secrets(f"x --{name} planted, '--{name}', 'planted'")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAX_TOKENS", "131072"), ("tokens_per_batch", "1.5e6"), ("BUILD_TOKENS", "4"), ("token_budget", "128k"),
        ("TOKENIZERS_PARALLELISM", "false"), ("use_auth_token", "True"), ("token", "None"), ("tokenizer_path", "/m/x"),
        ("PASSWORD_FILE", "pw"), ("GOOGLE_APPLICATION_CREDENTIALS", "/run/keys/google.json"), ("pad_token", "<pad>"),
        ("TOKEN_URL", "https://x/y"), ("HF_TOKEN", "$HF_TOKEN"), ("TOKEN", "$(cat /run/secrets/token)"),
        ("monkey", "x"), ("sort_key", "loss"), ("image-key", "png"), ("disk", "x"), ("--mask", "x"), ("risk", "x"),
        ("taskSize", "x"), ("secrets", "OBS_SK"), ("primary_key", "id"), ("num_key_value_heads", "x"),
    ],
)  # fmt: skip
def test_figures_and_paths_are_no_secrets(name: str, value: str) -> None:
    assert not is_secret(name, value)
    for text in (
        f"{name}={value} lr=1",
        f"--{name.strip('-')} {value}",
        f'"{name}": "{value}"',
        f"{name}: {value}",
    ):
        assert without_secrets(text) == text


def test_a_number_may_be_a_password_and_a_key_may_look_like_a_path() -> None:
    assert is_secret("db_password", "123456")
    assert is_secret("api_key", "1234567890")
    assert masked({"db_password": 123456, "pass": 12, "max_tokens": 123456}) == {
        "db_password": MASK, "pass": 12, "max_tokens": 123456,
    }  # fmt: skip
    assert without_secrets("pass: 12, fail: 3, Cookie: planted") == f"pass: 12, fail: 3, Cookie: {MASK}"
    assert is_secret("AWS_SECRET_ACCESS_KEY", "/bPxRfiCY/K7MDENG")
    assert without_secrets("--password 123456 --lr 1") == f"--password {MASK} --lr 1"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("token: expected 16 characters", None), ("no password: set one", None), ("sk: planted and", "sk: ****** and"),
        ("https://a:p@ss/x", "https://******@ss/x"), ("https://a:p@s@s/x", "https://******@s/x"),
        ("a:p@s@host", "a:******@host"), ("org/image:tag@sha256:0815", None), ("max_tokens=5,sk=x", "max_tokens=5,sk=******"),
        ("password='a, b' c", "password='******' c"), ('sk="cut off', 'sk="******'), ('{\\"sk\\": \\"x\\"}', '{\\"sk\\": \\"******\\"}'),
        ('token: "a\\"b" c', 'token: "******" c'), ("token == other", None), ("Bearer abcdefgh1", "Bearer ******"),
        ("secret: `docker history` shows", None), ("--secret --lr 0.1", None), ("me@host.example", None),
    ],
)  # fmt: skip
def test_secrets_in_a_text_are_masked(text: str, shown: str | None) -> None:
    assert without_secrets(text) == (text if shown is None else shown)


def test_json_is_masked_by_names_and_as_command_lines() -> None:
    document = {
        "argv": ["train.py", "--sk", "x1", "--max-tokens", "4", "--config", '{"sk": "x2"}'],
        "env": [{"name": "WANDB_KEY", "value": "x3"}, {"name": "LR", "value": "1"}],
        "tokens": 4096, "token": "x4", "credentials": ["x5", "x6"], "nothing": None, "done": True,
    }  # fmt: skip
    assert masked(document) == {
        "argv": ["train.py", "--sk", MASK, "--max-tokens", "4", "--config", f'{{"sk": "{MASK}"}}'],
        "env": [{"name": "WANDB_KEY", "value": MASK}, {"name": "LR", "value": "1"}],
        "tokens": 4096, "token": MASK, "credentials": [MASK, MASK], "nothing": None, "done": True,
    }  # fmt: skip


def test_known_values_are_masked_wherever_they_stand() -> None:
    key = "-----BEGIN KEY-----\nplanted-line-1\n-----END KEY-----"
    environ = {
        "SK": "planted-value",
        "X_TOKEN": "planted/a+b=",
        "SSH_KEY": key,
        "PLAIN": "planted-plain",
        "LR": "0.125000",
    }
    remember_secrets(environ, ["PLAIN"], afresh=True)
    text = f"planted-value planted/a+b= ?x=planted%2Fa%2Bb%3D {key} planted-line-1 planted-plain 0.125000"
    assert "planted" not in without_secrets(text)
    assert "0.125000" in without_secrets(text)
    remember_secrets({"SK": "another-value"})
    assert without_secrets("planted-value another-value") == f"{MASK} {MASK}"
    remember_secrets({}, afresh=True)
    assert without_secrets("planted-value") == "planted-value"


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
    "secret",
    [
        "AKIA" + "A1B2" * 4, "ghp_" + "a1B2" * 9, "glpat-" + "a1B2" * 5, "hf_" + "ab" * 17, "npm_" + "a1B2" * 9,
        "github_pat_" + "a1B2" * 20, "sk-proj-" + "a1B2" * 10, "xoxb-" + "12" * 12, "AIza" + "a1B2c" * 7,
    ],
)  # fmt: skip
@pytest.mark.parametrize("text", ["found {} there", "x = '{}'", "https://host/{}", "--value={}"])
def test_a_well_known_token_is_masked_wherever_it_stands(secret: str, text: str) -> None:
    assert secret not in without_secrets(text.format(secret))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("curl -u me:planted1 https://h/x", "curl -u me:****** https://h/x"),
        ("curl -fsS --user 'me:planted1' https://h && make -u a:b", "curl -fsS --user 'me:******' https://h && make -u a:b"),
        ("curl -u me:$PW https://h/x", None),
        ("obsutil config -i=PLANTED -k=planted/1 -e=https://obs", "obsutil config -i=****** -k=****** -e=https://obs"),
        ("sshpass -p planted1 ssh me@h", "sshpass -p ****** ssh me@h"),
        ("docker login -u me -p planted1 swr.h", "docker login -u me -p ****** swr.h"),
        ("docker run -p 80:80 x", None),
        ("mysql -uroot -pplanted1 db", "mysql -uroot -p****** db"),
    ],
)  # fmt: skip
def test_an_option_that_takes_a_secret_without_saying_so_is_masked(text: str, shown: str | None) -> None:
    assert without_secrets(text) == (text if shown is None else shown)


@pytest.mark.parametrize(
    "text",
    ["tokens: 4096", "tokens/s = 12345678.9", "token: expected 16 characters", "secretary = some", "epoch 3 loss: 0.12345678", "a@b.example"],
)  # fmt: skip
def test_other_text_is_kept(text: str) -> None:
    assert without_secrets(text, []) == text


def test_known_secrets_have_a_minimum_length_and_any_bytes() -> None:
    """The kernel takes every byte in a variable; Python reads those that are not UTF-8 as surrogates."""
    environ = {"SK": "planted", "TOKEN": "on", "PATH": "/usr/bin", "A_TOKEN": "planted-and-\udcff"}
    remember_secrets(environ, afresh=True)
    text = "planted-and-\udcff planted-and-%FF planted on /usr/bin"
    assert without_secrets(text) == f"{MASK} {MASK} {MASK} on /usr/bin"
    remember_secrets({}, afresh=True)


@pytest.mark.parametrize(
    "part",
    [
        "a", "token", "token=", "://", "?sig=", "secret ", "access_key:1", "=", "\"'", "--sk ", "-", "a:@", 'sk="', 'sk=\\"',
        ":@a", "a.", "Bearer ", "AKIA", "curl -u a", "login -p ",
    ],
)  # fmt: skip
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


@pytest.mark.parametrize("option", ["--auth", "--pat", "-auth", "--github-pat", "--http-auth"])
@pytest.mark.parametrize("words", [["{}", "planted"], ["{}=planted"]])
def test_a_login_or_an_access_token_behind_an_option_is_masked(option: str, words: list[str]) -> None:
    argv = ["train.py", *(word.format(option) for word in words), "--pattern", "x", "--path", "y"]
    assert "planted" not in " ".join(without_secret_words(argv))
    assert "planted" not in without_secrets(" ".join(argv))
    assert without_secret_words(argv)[-4:] == ["--pattern", "x", "--path", "y"]
    assert masked({"auth": "basic", "PAT": "x", "--auth-type": "basic"}) == {
        "auth": "basic", "PAT": "x", "--auth-type": "basic",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "OBS_ACCESS_KEY_ID and OBS_SECRET_ACCESS_KEY: not set",
        "OBS does not know OBS_ACCESS_KEY_ID: was it deleted?",
        "WANDB_API_KEY: found two lines, expected one",
    ],
)
def test_a_sentence_behind_the_name_of_a_key_is_no_key(text: str) -> None:
    assert without_secrets(text) == text


@pytest.mark.parametrize("value", ["planted", "planted it", "Planted it", "planted1 it"])
def test_a_value_behind_the_name_of_a_key_is_masked(value: str) -> None:
    assert "lanted" not in without_secrets(f"OBS_SECRET_ACCESS_KEY: {value}")
