"""Keeps secrets out of everything that is printed, written or sent. Pure.

There is one rule for what a secret is, `is_secret`, and one function that takes secrets out of texts and of
JSON values, `masked`. Whatever writes text of ma_boot's own calls it where the text leaves the process.
The template of a `Message` is never masked, only its arguments are: `OBS_ACCESS_KEY_ID: not set` names a
secret, but has none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, partial
from re import Match
from typing import Any
from urllib.parse import quote

from ma_boot.wording import Message

MASK = "******"
_SHORTEST_SECRET = 6  # a shorter value would match too much text that is not secret
_SHORTEST_NUMBER = 4  # digits of a password; `pass: 3` is a figure
# The words with which a sentence of ours goes on behind the name of a key: none of them is a key.
_BEGIN_PROSE = {
    "a", "after", "all", "already", "an", "another", "any", "are", "both", "choose", "copy", "does",
    "enter", "everything", "exit", "expected", "found", "has", "is", "it", "its", "left", "less", "more",
    "must", "neither", "nested", "no", "none", "not", "number", "only", "set", "several", "the", "there",
    "this", "wait", "was",
}  # fmt: skip
_PASSWORD, _KEY, _OTHER = "password", "key", "other"
# Patterns are compiled by `re` where they are used first: not at every start.
_WORDS = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+"  # of a name: between `_`, `-`, `.` and digits, and in camelCase
_PASSWORDS = ("password", "passwd", "passphrase")  # of a word: how it ends
_SECRETS = ("secret", "credential", "token")
_SINGLE = ("signature", "sig", "authorization", "cookie", "jwt")
_KEYS = ("apikey", "accesskey", "secretkey", "privatekey")
# `key` after one of these words is a secret, and after `sort` or `image` none.
_KEYS_OF = {
    "access", "account", "aes", "anthropic", "api", "app", "auth", "aws", "azure", "comet", "dashscope",
    "deepseek", "deploy", "encryption", "git", "github", "hf", "hmac", "huawei", "huggingface", "hw",
    "iam", "kaggle", "licence", "license", "master", "minio", "neptune", "obs", "openai", "private",
    "secret", "service", "signing", "ssh", "subscription", "swanlab", "wandb",
}  # fmt: skip
# `token` after one of these is what a tokenizer makes.
_TOKENS_OF_TEXTS = {
    "audio", "bos", "bot", "cls", "end", "eos", "eot", "image", "mask", "max", "min", "new", "num", "pad",
    "per", "prompt", "sep", "special", "start", "stop", "unk", "video",
}  # fmt: skip
_OPTIONS = ("auth", "pat")  # how options end that take a login or a personal access token; variables do not
# The last words of names whose values only say something about a secret.
_ABOUT_SECRETS = {
    "algorithm", "count", "dir", "directory", "encryption", "endpoint", "env", "expires", "expiry", "file",
    "folder", "host", "kind",
    "len", "length", "limit", "mode", "name", "path", "policy", "port", "size", "timeout", "ttl", "type",
    "uri", "url", "version",
}  # fmt: skip
_PLAIN = r"(?i:true|false|yes|no|on|off|none|null|auto|nan|inf)|\$[A-Z_][A-Z0-9_]*|\$[({].*"
_NUMBER = r"[+-]?\d[\d_,.]{0,15}(?:[eE][+-]?\d{1,3})?(?:[kKMGTP]i?)?B?"
_PATH = r"(?:~|\.\.?)?(?:/[\w.@-]{1,32}){2,}/?"
# In texts: an option and its value, or a name, then `=` or `:`.
_NAMED = (
    r"(?<![\w.-])(?:(-{1,2}[A-Za-z][\w.-]*)(?:\\?[\"'])?(?:[ \t]*(=|:)[ \t]*|,?\s+)"
    r"|\.?([A-Za-z_][\w.-]*)(?:\\?[\"']\]?)?[ \t]*(=(?![=~])|:(?!//))[ \t]*)"
)
_QUOTED = r"(?m)[bfru]{0,2}(\\*[\"'])(.*?)(?:(?<!\\)\1|$)"  # to its end, or that of the line
_BARE = r"[^\s\"'<>;&]+"
_REST_OF_LINE = r"[^\"'\r\n]+"
_BEARER = r"\b(Bearer +)[\w.~+/=-]{8,}"
_URL_LOGIN = r"(?<=://)[^/\s\"'<>]+(?=@)"
# `user:password@host`, and not the digest of an image.
_LOGIN = r"(?<![\w.+%-])([\w.+%-]{1,64}:)(?!//)[^/\s\"'<>]{1,128}(?=@(?!sha\d)[\w\[])"
# Of AWS, GitHub, GitLab, Hugging Face, npm, PyPI, Slack, Google, OpenAI and Anthropic.
_TOKEN_PREFIXES = ("AKIA", "ASIA", "gh", "github_", "glpat-", "hf_", "npm_", "pypi-", "xox", "AIza", "sk-")
_TOKEN = (
    r"(?<![A-Za-z0-9])(?:(?:AKIA|ASIA)[0-9A-Z]{16}|gh[opsur]_[0-9A-Za-z]{36}|github_pat_\w{40,255}"
    r"|glpat-[\w-]{20,255}|hf_[A-Za-z]{34}|npm_[0-9A-Za-z]{36}|pypi-AgE[\w-]{40,255}"
    r"|xox[abprs]-[0-9A-Za-z-]{20,255}|AIza[\w-]{35}|sk-(?:proj|svcacct|ant)-[\w-]{20,255})(?![A-Za-z0-9])"
)
# Programs to which a secret is given by an option that does not say so; what comes before its value, and it.
_PROGRAM_OPTIONS = {
    "curl": r"(\s(?:-u|--user|-U|--proxy-user)[ =]?[\"']?[^\s:\"']{1,64}:)([^\s\"']{1,255})",
    "obsutil": r"(\s-[ikt]=)([^\s\"']{1,4096})",
    "sshpass": r"(\s-p ?[\"']?)([^\s\"']{1,255})",
    "login": r"(\s-p[ =]?[\"']?)([^\s\"']{1,4096})",  # of docker, podman and the like
    "mysql": r"(\s-p[\"']?)([^\s\"']{1,255})",
}
_ARGUMENTS = r"\b{}\b[^\n;&|]{{0,4096}}"  # of a program
_SHORT = ("ak", "sk")
_STEMS = (
    "key",
    "auth",
    "pat",
    "pass",
    "pwd",
    "secret",
    "credential",
    "token",
    "sig",
    "authorization",
    "cookie",
    "jwt",
)
_SHORT_STEMS = r"(?<![A-Za-z])[as]k(?![a-z])|[AS][Kk](?![a-z])"

_known: tuple[str, ...] = ()  # values that are masked wherever they stand, the longest first


def remember_secrets(
    environ: Mapping[str, str], names: Collection[str] = (), *, afresh: bool = False
) -> None:
    """From now on the values of secret variables, and of those in `names`, are masked wherever they stand.

    So are the lines of each value, and what both look like in a URL. `afresh` forgets earlier ones.
    """
    global _known
    known = set(() if afresh else _known)
    for name, value in environ.items():
        if name in names or is_secret(name, value):
            forms = {value, *map(str.strip, value.splitlines())}
            known |= forms | {quote(form, safe="", errors="surrogateescape") for form in forms}
    long_enough = (value for value in known if len(value) >= _SHORTEST_SECRET)
    _known = tuple(sorted(long_enough, key=len, reverse=True))


def is_secret(name: str, value: str) -> bool:
    """Whether the value of a variable, option or field of this name is a secret.

    The words of the name tell: `OBS_SK`, `--api-key`, `wandb.apiKey`. Not secret are numbers
    (`MAX_TOKENS=4096`), booleans, paths (`PASSWORD_FILE=/run/secrets/pw`), references of a shell
    (`$HF_TOKEN`), tokenizers, and a shell's directory (`PWD`). A number of four digits or more may be a
    password or a key, and what looks like a path may be a key.
    """
    kind, value = "" if name == "PWD" else _kind(name), value.strip(" \t[](){},")
    if not kind or not value or re.fullmatch(_PLAIN, value):
        return False
    if re.fullmatch(_NUMBER, value):
        return kind != _OTHER and len(value) >= _SHORTEST_NUMBER
    return kind == _KEY or not re.fullmatch(_PATH, value)


@lru_cache(maxsize=1024)
def _kind(name: str) -> str:
    """What kind of a secret a name stands for; empty for none."""
    lower = name.lower()
    if not any(stem in lower for stem in (*_SHORT, *_STEMS)):
        return ""
    words = [word.lower() for word in re.findall(_WORDS, name[:200])]
    if not words or words[-1] in _ABOUT_SECRETS or words == ["secrets"]:  # which lists names of variables
        return ""
    kinds = {_kind_of_word(word, before) for before, word in zip(("", *words), words)}
    if name.startswith("-") and words[-1] in _OPTIONS:
        kinds.add(_OTHER)
    return next((kind for kind in (_PASSWORD, _KEY, _OTHER) if kind in kinds), "")


def _kind_of_word(word: str, before: str) -> str:
    """What kind of a secret a word of a name stands for, after the word `before` it; empty for none."""
    singular = word[:-1] if word.endswith("s") else word
    if word in ("pass", "passw", "pwd") or singular.endswith(_PASSWORDS):
        return _PASSWORD
    if singular in ("ak", "sk") or singular.endswith(_KEYS) or (singular == "key" and before in _KEYS_OF):
        return _KEY
    of_a_text = singular == "token" and before in _TOKENS_OF_TEXTS
    return _OTHER if singular in _SINGLE or (singular.endswith(_SECRETS) and not of_a_text) else ""


def without_secret_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for a tool that looks at the machine, or at a process: it needs no secret."""
    return {name: value for name, value in environ.items() if not is_secret(name, value)}


def masked(value: Any, name: str = "") -> Any:
    """A JSON value without secrets: in a dict by the names, in a list as words of a command line, in texts.

    `name` is that of the value itself. A dict with `name` and `value`, as in lists of variables, counts as
    one variable. Booleans, None, and numbers that are no secret stay.
    """
    if isinstance(value, (str, int, float)) and is_secret(name, str(value)):
        return MASK
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, Mapping):
        variable = value.get("name")
        names = {"value": variable} if isinstance(variable, str) else {}
        return {key: masked(part, str(names.get(key, key))) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        if all(isinstance(part, str) for part in value) and not _kind(name):
            return without_secret_words(value)
        return [masked(part, name) for part in value]
    return value


def without_secret_words(words: Sequence[str]) -> list[str]:
    """The words of a command line with masked values of options and variables with a secret's name:
    `--token X`, `--token=X`, `TOKEN=X`; and without the secrets in the text of each word."""
    shown: list[str] = []
    option = ""  # whose value comes next
    for word in words:
        name, equals, value = word.partition("=")
        if option and not word.startswith("-") and is_secret(option, word):
            word = MASK
        elif equals and re.fullmatch(r"[+~-]{0,2}[\w.-]+", name) and is_secret(name, value):
            word = name + equals + MASK
        else:
            word = without_secrets(word)
        shown.append(word)
        option = name if name.startswith("-") and not equals else ""
    return shown


def without_secrets(text: str, values: Sequence[str] = ()) -> str:
    """The text without what `remember_secrets` knows and these values, without logins and signatures in URLs,
    and without what is written as `secret=...`, `--sk ...`, `"token": "..."`, `password: ...` or the like.

    Of a message only the arguments are masked, each by itself.
    """
    if isinstance(text, Message):
        return Message(text.template, tuple(without_secrets(arg, values) for arg in text.args))
    for value in (*values, *_known):
        if value in text:
            text = text.replace(value, MASK)
    text = without_known_forms(text)
    if "@" in text:
        text = re.sub(_LOGIN, rf"\1{MASK}", text)
    lower = text.lower()
    short = any(stem in lower for stem in _SHORT)  # the search is slow on long texts
    if any(stem in lower for stem in _STEMS) or (short and re.search(_SHORT_STEMS, text)):
        text = _without_named(text)
    return re.sub(_BEARER, rf"\1{MASK}", text) if "Bearer " in text else text


def without_known_forms(text: str) -> str:
    """The text without what its form alone tells: logins in URLs, tokens of well-known services, and options
    of programs such as `curl -u user:password`."""
    if "@" in text:
        text = re.sub(_URL_LOGIN, MASK, text)
    if any(prefix in text for prefix in _TOKEN_PREFIXES):
        text = re.sub(_TOKEN, MASK, text)
    for program, option in _PROGRAM_OPTIONS.items():
        if program in text:
            text = re.sub(_ARGUMENTS.format(program), partial(_without_option, option), text)
    return text


def _without_option(option: str, arguments: Match[str]) -> str:
    return re.sub(
        option,
        lambda given: given[0] if re.fullmatch(_PLAIN, given[2]) else given[1] + MASK,
        arguments[0],
    )


def _without_named(text: str) -> str:
    """The text with masked values behind names of secrets; in linear time for any text."""
    pieces: list[str] = []
    done = 0
    for pair in re.finditer(_NAMED, text):
        if pair.start() < done:
            continue
        span = _value_of(pair)
        if span is not None:
            start, done, before = *span, done
            pieces += (text[before:start], MASK)
    return "".join((*pieces, text[done:]))


def _value_of(pair: Match[str]) -> tuple[int, int] | None:
    """Where the secret behind a name begins and ends; None without one."""
    option, mark, name, other_mark = pair.groups()
    name, mark, text, start = option or name, mark or other_mark, pair.string, pair.end()
    kind = _kind(name)
    if not kind:
        return None
    quoted = re.compile(_QUOTED).match(text, start)
    if quoted is not None:
        return quoted.span(2) if is_secret(name, quoted[2]) else None
    is_header = name.lower().endswith("authorization")
    bare = re.compile(_REST_OF_LINE if is_header else _BARE).match(text, start)
    if bare is None:
        return None
    value = bare[0].rstrip(".,:)]}\\")
    if not mark and value.startswith("-"):  # another option
        return None
    word = value.strip("`")
    is_word = word in _BEGIN_PROSE if kind == _KEY else word.isalpha()
    if (
        mark == ":"
        and is_word
        and not is_header
        and re.compile(r"[.,:)]?[ \t]+[^\s#]").match(text, start + len(value))
    ):
        return None  # `token: expected 16 characters`, `OBS_ACCESS_KEY_ID: not set`
    return (start, start + len(value)) if value and is_secret(name, value.partition(",")[0]) else None
