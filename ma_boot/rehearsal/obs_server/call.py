"""What an operation is given: a request that was let in, and the place where objects are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional
from xml.etree import ElementTree

from ma_boot.rehearsal.obs_server.storage.buckets import Bucket, Buckets
from ma_boot.rehearsal.obs_server.storage.refusals import Refusal
from ma_boot.rehearsal.obs_server.storage.uploads import Uploads
from ma_boot.rehearsal.obs_server.wire.body import Body
from ma_boot.rehearsal.obs_server.wire.request import Request

KEPT_HEADERS = (
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
)


class Store:
    """The uploads below one directory, and the buckets there too unless they are elsewhere."""

    def __init__(self, root: Path, buckets: Optional[Buckets] = None) -> None:
        self.buckets = buckets or Buckets(root / "buckets")
        self.uploads = Uploads(root / "uploads")


@dataclass(frozen=True)
class Call:
    """`prefix` is that of the dialect's headers; `now` counts seconds since the epoch."""

    request: Request
    body: Body
    bucket_name: str
    key: str
    prefix: str
    now: float
    store: Store

    @property
    def bucket(self) -> Bucket:
        """The bucket; raises `Refusal`."""
        return self.store.buckets.get(self.bucket_name)

    def need_bucket(self) -> None:
        """Raises `Refusal` where the bucket does not exist."""
        self.store.buckets.get(self.bucket_name)

    def header(self, name: str) -> Optional[str]:
        """A header of the dialect, by its name without the prefix."""
        return self.request.headers.get(self.prefix + name)

    def parameter(self, name: str) -> str:
        """A parameter of the query; empty when it is missing."""
        return self.request.parameters.get(name) or ""

    def number(self, name: str, default: int, greatest: int) -> int:
        """A parameter that is a number, from 0 on; one that is greater counts as the greatest."""
        text = self.parameter(name)
        if text and not text.isdecimal():
            raise Refusal("InvalidArgument", f"{name} is no number")
        return min(int(text), greatest) if text else default

    @property
    def is_url_encoded(self) -> bool:
        """Keys are to be percent-encoded in the answer."""
        return self.parameter("encoding-type") == "url"

    def kept_headers(self) -> Dict[str, str]:
        """The standard headers that an object keeps."""
        headers = self.request.headers
        return {name: headers[name] for name in KEPT_HEADERS if name in headers}

    def metadata(self) -> Dict[str, str]:
        """The user's own metadata, as it was sent."""
        start = f"{self.prefix}meta-"
        headers = self.request.headers
        return {name[len(start) :]: value for name, value in headers.items() if name.startswith(start)}

    def document(self) -> ElementTree.Element:
        """The body as XML, its names without a namespace."""
        try:
            root = ElementTree.fromstring(self.body.document(self.prefix))
        except ElementTree.ParseError as error:
            raise Refusal("MalformedXML", f"the body is no XML: {error}") from None
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
        return root


def texts(root: ElementTree.Element, path: str) -> List[str]:
    """The texts of all elements at a path."""
    return [element.text or "" for element in root.findall(path)]
