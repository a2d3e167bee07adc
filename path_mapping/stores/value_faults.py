"""Mistakes in the values of OBS's variables that copying makes: blanks, quotes, masks. Pure.

OBS answers to them with `SignatureDoesNotMatch`, or the name of the server is not found: neither names the
character. Huawei's SDK removes blanks around a key, but not quotes; here a key is used as it is, or refused.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_QUOTES = "\"'`\u201c\u201d\u2018\u2019\uff02\uff07"
_PLURALS = {"a blank": "blanks", "a line break": "line breaks", "a quote": "quotes"}
# An unexpanded variable of a shell or a template, or a text such as <AK>.
_PLACEHOLDER = re.compile(r"<.*>|\$\w+|\$?\{.*\}|\$\(.*\)|%\w+%")
_MASK = "***"
_EXPECTED_ENDPOINT = "https://obs.REGION.example.com"


def faults_of_key(text: str) -> list[str]:
    """Returns the mistakes in a key or token, as nouns, which have no part of it but wrong characters."""
    faults = _faults_of_characters(text)
    if _MASK in text:
        faults.append("the asterisks of a masked value")
    elif _PLACEHOLDER.fullmatch(text.strip(_QUOTES + " \t\r\n")):
        faults.append("a placeholder in its place")
    return faults


def fault_of_endpoint(text: str) -> str:
    """Returns the mistake in an endpoint, `found ..., expected ...`; empty for the URL of a server.

    A `/` at the end is none. The message never has a login.
    """
    wanted = ["no " + re.sub("^(?:a|the) ", "", fault) for fault in _faults_of_characters(text)]
    clean = "".join(character for character in text if not _kind(character))
    if not clean:
        return _found(text, [_EXPECTED_ENDPOINT])
    try:
        address = urlsplit(clean if "://" in clean else f"https://{clean}")
        port = address.port
        is_server = bool(address.hostname) and address.scheme in ("http", "https")
    except ValueError:
        # The host has brackets without a pair, or the port is no number.
        return _found(text, [*wanted, "a port from 1 to 65535" if "[" not in clean else _EXPECTED_ENDPOINT])
    if not is_server:
        wanted.append(_EXPECTED_ENDPOINT)
    elif port == 0:
        wanted.append("a port from 1 to 65535")
    path = clean.partition("://")[2] if "://" in clean else clean
    path = path[len(address.netloc) :]
    if is_server and path.strip("/"):
        wanted.append(f"no path {path!r} after the server")
    if "@" in address.netloc:
        wanted.append("no login before the server")
    return _found(text, wanted) if wanted else ""


def _found(text: str, wanted: list[str]) -> str:
    return f"found {text.rpartition('@')[2]!r}, expected {', '.join(wanted)}"


def _faults_of_characters(text: str) -> list[str]:
    """Returns the wrong characters with their places, each once: `a blank at its end`, `quotes around it`."""
    plain = [index for index, character in enumerate(text) if not _kind(character)]
    if not plain:
        return ["nothing but blanks and quotes"] if text else []
    places: dict[str, list[str]] = {}
    for index, character in enumerate(text):
        kind = _kind(character)
        if kind:
            place = (
                "at its beginning" if index < plain[0] else "at its end" if index > plain[-1] else "inside"
            )
            known = places.setdefault(kind, [])
            if place not in known:
                known.append(place)
    faults = []
    for kind, known in places.items():
        if kind in _PLURALS and {"at its beginning", "at its end"} <= set(known):
            faults.append(f"{_PLURALS[kind]} around it")
            known = [place for place in known if place == "inside"]
        faults += [f"{kind} {place}" for place in known]
    return faults


def _kind(character: str) -> str:
    """Returns the kind of a character that no key and no endpoint has; empty for all others."""
    if character in "\r\n":
        return "a line break"
    if character in _QUOTES:
        return "a quote"
    if character.isspace():
        return "a blank"
    if character.isprintable() and character.isascii():
        return ""
    name = "non-ASCII" if character.isprintable() else "invisible"
    return f"the {name} character U+{ord(character):04X}"
