"""XML of listings and of multipart uploads as values, and back.

By expat itself, and without the package `xml`: the objects that the SDK makes of it take four times as long.
Objects that are written exactly as OBS writes them are cut out of the page before, which takes a quarter of
expat's time.
"""

from __future__ import annotations

import pyexpat
import re
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple
from urllib.parse import unquote_plus

from path_mapping.errors import Corrupted, Unreachable
from path_mapping.wire.found_object import StoredObject
from path_mapping.wire.obs_responses import checked_size, md5_of_etag

_OF_OBJECTS = frozenset(("Key", "Size", "ETag", "Type"))
_OF_PAGES = frozenset(("IsTruncated", "EncodingType", "Prefix"))
_DAMAGED = (pyexpat.ExpatError, LookupError, ValueError)  # the latter two for an encoding, or for no number
_BEGIN, _END = b"<Contents>", b"</Contents>"
_ROOT = re.compile(
    rb'(<\?xml version="1\.0" encoding="UTF-8"( standalone="(yes|no)")?\?>\s*)?<ListBucketResult[ >]'
)
_OBJECT = re.compile(
    "<Contents><Key>(T)</Key><LastModified>T</LastModified><ETag>(T)</ETag><Size>([0-9]{1,18})</Size>"
    "(?:<Owner><ID>T</ID>(?:<DisplayName>T</DisplayName>)?</Owner>)?<StorageClass>T</StorageClass>"
    "(?:<Type>(T)</Type>)?</Contents>".replace("T", "[ -%'-;=?-~]*")  # printable ASCII, but no & < >
)

_Found = Tuple[str, str, str, Optional[str]]
"""An object as text: its key, ETag, size and type."""


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
    found, document = _cut(document)
    prefixes: List[str] = []
    page: Dict[str, str] = {}
    values: Dict[str, str] = {}
    text: List[str] = []

    def start(name: str, attributes: List[str]) -> None:
        text.clear()
        if name == "Contents":
            values.clear()

    def end(name: str) -> None:
        if name in _OF_OBJECTS:
            values[name] = "".join(text)
        elif name == "Contents":
            found.append((values["Key"], values.get("ETag", ""), values["Size"], values.get("Type")))
        elif name == "CommonPrefixes":
            prefixes.append(page["Prefix"])
        elif name in _OF_PAGES:
            page[name] = "".join(text)
        text.clear()

    parser = pyexpat.ParserCreate()
    parser.buffer_text = parser.ordered_attributes = True  # few calls, and no dictionary for each element
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = text.append
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(document, True)
        return _page(doing, found, prefixes, page)
    except KeyError as error:
        raise Corrupted(f"{doing}: the response is damaged, it has no {error.args[0]}") from None
    except _DAMAGED as error:
        raise Corrupted(f"{doing}: the response is damaged: {error}") from None


def _cut(document: bytes) -> Tuple[List[_Found], bytes]:
    """The objects of a page that has all of them in a row and as OBS writes them, and the page without them.

    No objects, and the page as it is, for any other. Expat finds the same in both: what is cut out are whole
    elements, between two tags below the root, and whatever could give them another meaning (a comment, an
    entity, another encoding) makes it a page of the other kind.
    """
    first, last = document.find(_BEGIN), document.rfind(_END) + len(_END)
    inside, rest = document[first:last], document[:first] + document[last:]
    if (
        not 0 < first < last
        or not inside.isascii()
        or not _ROOT.match(document)
        or document[first - 1 : first] != b">"
        or document[last : last + 1] != b"<"
        or any(one in rest for one in (b"<!", b"Contents"))
        or b"<?" in rest[2:]
    ):
        return [], document
    parts = _OBJECT.split(inside.decode("ascii").replace("&quot;", '"'))
    if any(parts[::5]):  # what is between the objects
        return [], document
    return list(zip(parts[1::5], parts[2::5], parts[3::5], parts[4::5])), rest


def check_order(doing: str, marker: str, page: ObjectPage) -> None:
    """Raises `Unreachable` if the keys do not ascend from the marker: they would page forever."""
    keys = [one.key for one in page.objects]
    for before, key in zip([marker, *keys], keys):
        if key <= before:
            raise Unreachable(f"{doing}: {key!r} came after {before!r}")


def parsed_upload(doing: str, document: bytes) -> str:
    """The id of the upload that has begun (OBS API reference, "Initiating a Multipart Upload").

    Raises:
        Corrupted: it is not a whole answer, or has no id.
    """
    upload = _elements(doing, document).get("UploadId", "")
    if not upload:
        raise Corrupted(f"{doing}: the response is damaged, it has no UploadId")
    return upload


def parts_document(etags: Sequence[str]) -> bytes:
    """What ends an upload of parts with these ETags (OBS API reference, "Completing a Multipart Upload")."""
    parts = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{_escaped(etag)}</ETag></Part>"
        for number, etag in enumerate(etags, start=1)
    )
    return f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def parsed_completion(doing: str, document: bytes) -> str:
    """The ETag of the object that an upload of parts has become, empty if the answer does not tell.

    Raises:
        Corrupted: it is not a whole answer; one that begins with status 200 may end with an error.
    """
    found = _elements(doing, document)
    if "CompleteMultipartUploadResult" not in found:
        why = found.get("Code") or "no CompleteMultipartUploadResult"
        raise Corrupted(f"{doing}: the upload was not completed: the response has {why}")
    return found.get("ETag", "")


def _elements(doing: str, document: bytes) -> Dict[str, str]:
    """The text of each element, of the last one if several have the same name. Raises `Corrupted`."""
    found: Dict[str, str] = {}
    text: List[str] = []

    def start(name: str, attributes: Dict[str, str]) -> None:
        text.clear()

    def end(name: str) -> None:
        found[name] = "".join(text)
        text.clear()

    parser = pyexpat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = text.append
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(document, True)
    except _DAMAGED as error:
        raise Corrupted(f"{doing}: the response is damaged: {error}") from None
    return found


def _refuse_doctype(*declared: object) -> None:
    """No response of OBS has one; it could define entities that fill the memory."""
    raise ValueError("it has a document type")


def _page(doing: str, found: List[_Found], prefixes: List[str], page: Dict[str, str]) -> ObjectPage:
    """Raises `KeyError` or `ValueError` for what is missing or no number."""
    truncated = page["IsTruncated"].strip().lower() == "true"
    coded = page.get("EncodingType") == "url"
    objects = [
        StoredObject(
            unquote_plus(key) if coded and ("%" in key or "+" in key) else key,
            checked_size(doing, size),
            None if kind == "Appendable" else md5_of_etag(etag),
            etag,
        )
        for key, etag, size, kind in found
    ]
    return ObjectPage(objects, [unquote_plus(one) if coded else one for one in prefixes], truncated)
