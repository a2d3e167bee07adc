"""The answer to a listing of objects: one page of XML as values.

By expat itself, and without the package `xml`: the objects that the SDK makes of it take four times as long.
"""

from __future__ import annotations

import pyexpat
from typing import Dict, List, NamedTuple, Tuple
from urllib.parse import unquote_plus

from path_mapping.errors import Corrupted
from path_mapping.wire.found_object import StoredObject
from path_mapping.wire.obs_responses import md5_of_etag

_OF_OBJECTS = frozenset(("Key", "Size", "ETag", "Type"))
_OF_PAGES = frozenset(("IsTruncated", "EncodingType", "Prefix"))


class ObjectPage(NamedTuple):
    """The objects, and the common prefixes, of one page; `truncated`: there are more."""

    objects: List[StoredObject]
    prefixes: List[str]
    truncated: bool


def parsed_page(doing: str, document: bytes) -> ObjectPage:
    """The page in a response (OBS API reference, "Listing Objects in a Bucket").

    Raises:
        Corrupted: it is not a whole answer: not well-formed, or an object has no key or no size.
    """
    found: List[Tuple[str, str, str, str]] = []
    prefixes: List[str] = []
    page: Dict[str, str] = {}
    values: Dict[str, str] = {}
    text: List[str] = []

    def start(name: str, attributes: List[str]) -> None:
        text.clear()

    def end(name: str) -> None:
        if name in _OF_OBJECTS:
            values[name] = "".join(text)
        elif name == "Contents":
            found.append((values["Key"], values["Size"], values.get("ETag", ""), values.get("Type", "")))
            values.clear()
        elif name == "CommonPrefixes":
            prefixes.append(page["Prefix"])
        elif name in _OF_PAGES:
            page[name] = "".join(text)

    parser = pyexpat.ParserCreate()
    parser.buffer_text = parser.ordered_attributes = True  # few calls, and no dictionary for each element
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = text.append
    try:
        parser.Parse(document, True)
        return _page(found, prefixes, page)
    except KeyError as error:
        raise Corrupted(f"{doing}: the response is damaged, it has no {error.args[0]}") from None
    except (pyexpat.ExpatError, ValueError) as error:
        raise Corrupted(f"{doing}: the response is damaged: {error}") from None


def parsed_upload(doing: str, document: bytes) -> str:
    """The id of the upload that has begun (OBS API reference, "Initiating a Multipart Upload").

    Raises:
        Corrupted: it is not a whole answer, or has no id.
    """
    found: List[str] = []
    inside = False

    def start(name: str, attributes: Dict[str, str]) -> None:
        nonlocal inside
        inside = name == "UploadId"

    parser = pyexpat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.CharacterDataHandler = lambda piece: found.append(piece) if inside else None
    try:
        parser.Parse(document, True)
    except pyexpat.ExpatError as error:
        raise Corrupted(f"{doing}: the response is damaged: {error}") from None
    if not found:
        raise Corrupted(f"{doing}: the response is damaged, it has no UploadId")
    return found[0]


def _page(found: List[Tuple[str, str, str, str]], prefixes: List[str], page: Dict[str, str]) -> ObjectPage:
    """Raises `KeyError` or `ValueError` for what is missing or no number."""
    truncated = page["IsTruncated"].strip().lower() == "true"
    coded = page.get("EncodingType") == "url"
    objects = [
        StoredObject(
            unquote_plus(key) if coded and ("%" in key or "+" in key) else key,
            int(size),
            None if kind == "Appendable" else md5_of_etag(etag),
            etag,
        )
        for key, size, etag, kind in found
    ]
    return ObjectPage(objects, [unquote_plus(one) if coded else one for one in prefixes], truncated)
