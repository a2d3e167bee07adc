"""A call of an operation: a verified request, and the storage that it is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional
from xml.etree import ElementTree

from ma_boot.rehearsal.obs_server.storage import Bucket, Buckets, Refusal, Uploads
from ma_boot.rehearsal.obs_server.wire import Body, HttpRequest

KEPT_HEADERS = (
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
)


@dataclass(frozen=True)
class Call:
    """What an operation gets; `now` is in seconds since the epoch."""

    request: HttpRequest
    body: Body
    bucket_name: str
    key: str
    now: float
    buckets: Buckets
    uploads: Uploads

    @property
    def prefix(self) -> str:
        """The prefix of headers in the dialect of the request."""
        return self.request.prefix

    @property
    def bucket(self) -> Bucket:
        """The bucket that the request addresses; raises `Refusal` if it does not exist."""
        return self.buckets.get(self.bucket_name)

    def header(self, name: str) -> Optional[str]:
        """A header of the dialect, by its name without the prefix."""
        return self.request.headers.get(self.prefix + name)

    def parameter(self, name: str) -> str:
        """A parameter of the query; empty if it is missing."""
        return self.request.parameters.get(name) or ""

    def number(self, name: str, default: int, highest: int) -> int:
        """A parameter that is a number from 0 on, capped at the highest; raises `Refusal` if it is none."""
        text = self.parameter(name)
        if text and not text.isdecimal():
            raise Refusal("InvalidArgument", f"{name} is not a number")
        return min(int(text), highest) if text else default

    @property
    def is_url_encoded(self) -> bool:
        """Whether the response is to percent-encode keys."""
        return self.parameter("encoding-type") == "url"

    def kept_headers(self) -> Dict[str, str]:
        """The standard headers that are stored with an object."""
        headers = self.request.headers
        return {name: headers[name] for name in KEPT_HEADERS if name in headers}

    def metadata(self) -> Dict[str, str]:
        """The user's own metadata, as it was sent."""
        start = f"{self.prefix}meta-"
        headers = self.request.headers
        return {name[len(start) :]: value for name, value in headers.items() if name.startswith(start)}

    def document(self) -> ElementTree.Element:
        """The body as XML, with tags stripped of their namespace; raises `Refusal` if it is not XML."""
        try:
            root = ElementTree.fromstring(self.body.document())
        except ElementTree.ParseError as error:
            raise Refusal("MalformedXML", f"the body is not XML: {error}") from None
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
        return root


def texts(root: ElementTree.Element, path: str) -> List[str]:
    """The texts of all elements at a path."""
    return [element.text or "" for element in root.findall(path)]
