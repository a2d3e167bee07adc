"""Tells the credentials in files of an image from other texts: what `redact` takes for a secret, a literal.

Masking may hide too much, but an image is refused for what is here. So placeholders, names and code do not
count.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from ma_boot.desk.image.rules.facts import Pairs
from ma_boot.redact import is_secret, without_known_forms

PRIVATE_KEY, TOKEN, SECRET = "a private key", "a well-known token", "a secret key or password"
_SOURCES = {
    ".c", ".cc", ".cpp", ".cu", ".go", ".h", ".html", ".ipynb", ".java", ".js", ".lua", ".md", ".pl", ".pm",
    ".py", ".pyi", ".r", ".rb", ".rs", ".rst", ".ts", ".txt",
}  # fmt: skip
_PAIR = re.compile(r"([A-Za-z_][\w.-]*)[\"'\]]*\s*(?::=|=>|[=:])\s*(?:([\"'])(.*?)(?:\2|$)|(\S+))", re.DOTALL)
# Files that only hold settings, where any value is meant.
_SETTINGS = re.compile(
    r"/(\.env(\.[^/]*)?|\.obsutilconfig|\.s3cfg|\.boto|\.ossutilconfig|rclone\.conf|\.aws/[^/]+|etc/environment)"
)
_LITERAL = re.compile(r"[!-~]{6,}")
_CODE = re.compile(r"[(){}<>\[\]$\\|*]|//|\.\.\.|\w\.[a-z_]+$")  # calls, variables, templates, attributes
_PLACEHOLDER = re.compile(
    r"example|placeholder|change.?me|dummy|your|my[_-]|x{3}|test|fake|sample|secret|passw|token|key|none|null|abc|1234",
    re.IGNORECASE,
)


def parsed_search(output: str) -> tuple[Pairs, bool]:
    """Files that hold credentials, each after what it holds, by the output of `credentials.sh`; and whether
    that is whole."""
    lines = [line.split("\t", 2) for line in output.split("\n")]
    files = {(fields[1], fields[2]) for fields in lines if fields[0] == "credential" and len(fields) == 3}
    for file, text in (fields[1:] for fields in lines if fields[0] == "text" and len(fields) == 3):
        kind = credential_in(file.partition(" (")[0], text)
        files |= {(kind, file)} if kind else set()
    return tuple(sorted(files)), ["end", "ok"] in lines


def credential_in(file: str, text: str) -> str:
    """What a text of a file holds, `NAME = VALUE` or less: a kind of credential; empty for none."""
    if "PRIVATE KEY" in text:
        return PRIVATE_KEY
    if "://" not in text and without_known_forms(text) != text and "EXAMPLE" not in text:
        return TOKEN
    pair = _PAIR.search(text)
    if pair is None or (PurePosixPath(file).suffix in _SOURCES and not pair[2]):
        return ""
    value = pair[3] if pair[2] else pair[4]
    is_meant = _LITERAL.fullmatch(value) is not None and not _PLACEHOLDER.search(value)
    is_random = any(map(str.isdigit, value)) and any(map(str.isalpha, value)) and not _CODE.search(value)
    settings = _SETTINGS.search(file)
    return SECRET if is_meant and (settings or is_random) and is_secret(pair[1], value) else ""
