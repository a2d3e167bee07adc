"""Masks secrets in everything that is printed, written or sent. Pure.

`is_secret` decides by name and value, and is the only rule. `masked` applies it to texts and JSON values; it
is called where a text leaves the process. A text is searched in this order:

1. values that are known to be secret (`remember_secrets`), wherever they are, longest match first; 2. forms
that need no name (`without_known_forms`): logins in URLs, `Bearer ...`, tokens of well-known services,
options of programs such as `curl -u`; 3. values behind a secret's name (`_without_named`): `--token X`,
`TOKEN=X`, `"token": "X"`, `password: X`.

Of a `Message` only the arguments are masked, never its template: `OBS_ACCESS_KEY_ID: not set` names a secret
but has none.

Every pattern has bounded repetitions, so that the time is linear in the length of any text.
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
# Characters; a shorter value would match too much text that is not secret.
_SHORTEST_SECRET = 6
# Digits of a number that may be a password or a key; `pass: 3` is a figure.
_SHORTEST_NUMBER = 4
# Words that follow the name of a key in ma_boot's own sentences (`OBS_ACCESS_KEY_ID: not set`).
_BEGIN_PROSE = {
    "a", "after", "all", "already", "an", "another", "any", "are", "both", "choose", "copy", "does",
    "enter", "everything", "exit", "expected", "found", "has", "is", "it", "its", "left", "less", "more",
    "must", "neither", "nested", "no", "none", "not", "number", "only", "set", "several", "the", "there",
    "this", "wait", "was",
}  # fmt: skip
# Kinds of secrets. They differ in values that are not secret: a password or a key may be a number, and a key
# may look like a path.
_PASSWORD, _KEY, _OTHER = "password", "key", "other"
# All patterns are strings: `re` compiles them on first use, as that costs a start some milliseconds.
# The words of a name are between `_`, `-`, `.` and digits, and those in camelCase.
_WORDS = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+"
# Ends of words: `dbpassword`, `mysecret`. The words in `_SINGLE` must be complete.
_PASSWORDS = ("password", "passwd", "passphrase")
_SECRETS = ("secret", "credential", "token")
_SINGLE = ("signature", "sig", "authorization", "cookie", "jwt")
_KEYS = ("apikey", "accesskey", "secretkey", "privatekey")
# `key` is a secret after one of these words only: `sort_key` and `image_key` are not.
_KEYS_OF = {
    "access", "account", "aes", "anthropic", "api", "app", "auth", "aws", "azure", "comet", "dashscope",
    "deepseek", "deploy", "encryption", "git", "github", "hf", "hmac", "huawei", "huggingface", "hw",
    "iam", "kaggle", "licence", "license", "master", "minio", "neptune", "obs", "openai", "private",
    "secret", "service", "signing", "ssh", "subscription", "swanlab", "wandb",
}  # fmt: skip
# `token` after one of these words is a unit of text: `max_tokens`, `pad_token`.
_TOKENS_OF_TEXTS = {
    "audio", "bos", "bot", "cls", "end", "eos", "eot", "image", "mask", "max", "min", "new", "num", "pad",
    "per", "prompt", "sep", "special", "start", "stop", "unk", "video",
}  # fmt: skip
# Last words of options that take a login or a personal access token. In names of variables they mean other
# things, such as PAT for a path.
_OPTIONS = ("auth", "pat")
# Last words of names whose values describe a secret: `PASSWORD_FILE`, `token_type`.
_ABOUT_SECRETS = {
    "algorithm", "count", "dir", "directory", "encryption", "endpoint", "env", "expires", "expiry", "file",
    "folder", "host", "kind",
    "len", "length", "limit", "mode", "name", "path", "policy", "port", "size", "timeout", "ttl", "type",
    "uri", "url", "version",
}  # fmt: skip
# Values that are no secret: booleans and the like, and references of a shell.
_PLAIN = r"(?i:true|false|yes|no|on|off|none|null|auto|nan|inf)|\$[A-Z_][A-Z0-9_]*|\$[({].*"
_NUMBER = r"[+-]?\d[\d_,.]{0,15}(?:[eE][+-]?\d{1,3})?(?:[kKMGTP]i?)?B?"
_PATH = r"(?:~|\.\.?)?(?:/[\w.@-]{1,32}){2,}/?"
# A name in a text and what separates it from its value. Groups 1 and 2: an option, and `=` or `:` if there is
# one; groups 3 and 4: any other name, with `=` or `:`. Neither `==`, `=~` nor `://` separates.
_NAMED = (
    r"(?<![\w.-])(?:(-{1,2}[A-Za-z][\w.-]*)(?:\\?[\"'])?(?:[ \t]*(=|:)[ \t]*|,?\s+)"
    r"|\.?([A-Za-z_][\w.-]*)(?:\\?[\"']\]?)?[ \t]*(=(?![=~])|:(?!//))[ \t]*)"
)
# Group 2: a quoted value, up to its closing quote or the end of the line. Quotes of nested JSON have a `\`.
_QUOTED = r"(?m)[bfru]{0,2}(\\*[\"'])(.*?)(?:(?<!\\)\1|$)"
_BARE = r"[^\s\"'<>;&]+"
_REST_OF_LINE = r"[^\"'\r\n]+"
_BEARER = r"\b(Bearer +)[\w.~+/=-]{8,}"
_URL_LOGIN = r"(?<=://)[^/\s\"'<>]+(?=@)"
# `user:password@host`, but not `image:tag@sha256:...`.
_LOGIN = r"(?<![\w.+%-])([\w.+%-]{1,64}:)(?!//)[^/\s\"'<>]{1,128}(?=@(?!sha\d)[\w\[])"
# Tokens of AWS, GitHub, GitLab, Hugging Face, npm, PyPI, Slack, Google, OpenAI and Anthropic. The prefixes
# are searched first: that is much faster than the pattern, and most texts have none.
_TOKEN_PREFIXES = ("AKIA", "ASIA", "gh", "github_", "glpat-", "hf_", "npm_", "pypi-", "xox", "AIza", "sk-")
_TOKEN = (
    r"(?<![A-Za-z0-9])(?:(?:AKIA|ASIA)[0-9A-Z]{16}|gh[opsur]_[0-9A-Za-z]{36}|github_pat_\w{40,255}"
    r"|glpat-[\w-]{20,255}|hf_[A-Za-z]{34}|npm_[0-9A-Za-z]{36}|pypi-AgE[\w-]{40,255}"
    r"|xox[abprs]-[0-9A-Za-z-]{20,255}|AIza[\w-]{35}|sk-(?:proj|svcacct|ant)-[\w-]{20,255})(?![A-Za-z0-9])"
)
# Programs with an option for a secret whose name does not show it. Group 1 is kept, group 2 is masked.
_PROGRAM_OPTIONS = {
    "curl": r"(\s(?:-u|--user|-U|--proxy-user)[ =]?[\"']?[^\s:\"']{1,64}:)([^\s\"']{1,255})",
    "obsutil": r"(\s-[ikt]=)([^\s\"']{1,4096})",
    "sshpass": r"(\s-p ?[\"']?)([^\s\"']{1,255})",
    # `docker login`, `podman login` and the like.
    "login": r"(\s-p[ =]?[\"']?)([^\s\"']{1,4096})",
    "mysql": r"(\s-p[\"']?)([^\s\"']{1,255})",
}
# The arguments of a program, up to the end of its command.
_ARGUMENTS = r"\b{}\b[^\n;&|]{{0,4096}}"
# Parts of the names of all secrets. A text without any of them needs no search for names; `ak` and `sk` are
# in many ordinary words (`task`), so they must stand alone (`_SHORT_STEMS`).
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

# Values that are masked in all output, longest first: one may be a part of another.
_known: tuple[str, ...] = ()


def remember_secrets(
    environ: Mapping[str, str], names: Collection[str] = (), *, afresh: bool = False
) -> None:
    """Masks the values of secret variables, and of those in `names`, in all output from now on.

    The lines of each value, and the value and its lines as in a URL, are masked as well. `afresh` forgets the
    values of earlier calls.
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
    """Returns whether the value of a variable, option or field of this name is a secret.

    The words of the name decide: `OBS_SK`, `--api-key`, `wandb.apiKey`. Not secret are numbers
    (`MAX_TOKENS=4096`), booleans, paths (`PASSWORD_FILE=/run/secrets/pw`), references of a shell
    (`$HF_TOKEN`), tokenizers, and a shell's directory (`PWD`). A number of four digits or more may be a
    password or a key, and a key may look like a path.
    """
    kind, value = "" if name == "PWD" else _kind(name), value.strip(" \t[](){},")
    if not kind or not value or re.fullmatch(_PLAIN, value):
        return False
    if re.fullmatch(_NUMBER, value):
        return kind != _OTHER and len(value) >= _SHORTEST_NUMBER
    return kind == _KEY or not re.fullmatch(_PATH, value)


@lru_cache(maxsize=1024)
def _kind(name: str) -> str:
    """Returns the kind of secret that a name stands for; empty for none."""
    lower = name.lower()
    if not any(stem in lower for stem in (*_SHORT, *_STEMS)):
        return ""
    words = [word.lower() for word in re.findall(_WORDS, name[:200])]
    # `secrets` alone is a list of names of variables.
    if not words or words[-1] in _ABOUT_SECRETS or words == ["secrets"]:
        return ""
    kinds = {_kind_of_word(word, before) for before, word in zip(("", *words), words)}
    if name.startswith("-") and words[-1] in _OPTIONS:
        kinds.add(_OTHER)
    return next((kind for kind in (_PASSWORD, _KEY, _OTHER) if kind in kinds), "")


def _kind_of_word(word: str, before: str) -> str:
    """Returns the kind of secret that a word of a name stands for, after the word `before` it; empty for
    none.
    """
    singular = word[:-1] if word.endswith("s") else word
    if word in ("pass", "passw", "pwd") or singular.endswith(_PASSWORDS):
        return _PASSWORD
    if singular in ("ak", "sk") or singular.endswith(_KEYS) or (singular == "key" and before in _KEYS_OF):
        return _KEY
    of_a_text = singular == "token" and before in _TOKENS_OF_TEXTS
    return _OTHER if singular in _SINGLE or (singular.endswith(_SECRETS) and not of_a_text) else ""


def without_secret_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment without secrets, for tools that inspect the machine or a process."""
    return {name: value for name, value in environ.items() if not is_secret(name, value)}


def masked(value: Any, name: str = "") -> Any:
    """Masks a JSON value: in an object by its names, in a list as words of a command line, and in texts.

    `name` is that of the value itself. An object with `name` and `value`, as in Kubernetes' lists of
    variables, is one variable. Booleans, None, and numbers that are not secret stay.
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
    """Masks the words of a command line: `--token X`, `--token=X`, `TOKEN=X`, and secrets within a word."""
    shown: list[str] = []
    # The option whose value may be the next word.
    option = ""
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
    """Masks a text: known values and these `values`, then known forms, then values behind names.

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
    # The test for substrings comes first: the search for the pattern is slow on long texts.
    short = any(stem in lower for stem in _SHORT)
    if any(stem in lower for stem in _STEMS) or (short and re.search(_SHORT_STEMS, text)):
        text = _without_named(text)
    return re.sub(_BEARER, rf"\1{MASK}", text) if "Bearer " in text else text


def without_known_forms(text: str) -> str:
    """Masks secrets that are recognized by their form.

    Logins in URLs, tokens of well-known services, and options of programs such as `curl -u user:password`.
    """
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
    """Masks the values behind names of secrets; in linear time for any text."""
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
    """Returns start and end of the secret behind a name; None if its value is not secret."""
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
    # The next option follows an option without a value.
    if not mark and value.startswith("-"):
        return None
    if mark == ":" and not is_header and _begins_prose(kind, value, text, start + len(value)):
        return None
    return (start, start + len(value)) if value and is_secret(name, value.partition(",")[0]) else None


def _begins_prose(kind: str, value: str, text: str, end: int) -> bool:
    """Returns whether a sentence follows the name: `token: expected 16 characters`, `OBS_SK: not set`.

    A secret is followed by the end of the line or a comment, the first word of a sentence by another word.
    """
    word = value.strip("`")
    is_word = word in _BEGIN_PROSE if kind == _KEY else word.isalpha()
    return is_word and re.compile(r"[.,:)]?[ \t]+[^\s#]").match(text, end) is not None
