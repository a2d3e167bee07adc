"""What goes to OBS and comes back: HTTP connections, and what the responses mean."""

from path_mapping.wire.found_object import ObjectState
from path_mapping.wire.http_connection import ConnectionFailed, HttpConnection, Origin, Response
from path_mapping.wire.obs_responses import (
    ContentCheck,
    base64_of_md5,
    compare,
    crc64_of_content,
    error_of_status,
    etag_of_parts,
    md5_of_content,
    md5_of_etag,
    object_state,
    parts_of_content,
    seconds_to_wait,
)
from path_mapping.wire.part_digests import PartDigests
from path_mapping.wire.part_sizes import likely_part_sizes, part_sizes_of

__all__ = [
    "ConnectionFailed",
    "ContentCheck",
    "HttpConnection",
    "ObjectState",
    "Origin",
    "PartDigests",
    "Response",
    "base64_of_md5",
    "compare",
    "crc64_of_content",
    "error_of_status",
    "etag_of_parts",
    "likely_part_sizes",
    "md5_of_content",
    "md5_of_etag",
    "object_state",
    "part_sizes_of",
    "parts_of_content",
    "seconds_to_wait",
]
