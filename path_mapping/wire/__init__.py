"""What goes to OBS and comes back: HTTP connections, and what the responses mean."""

from path_mapping.wire.access import (
    KEY_VARIABLES,
    address_of,
    bucket_in_path,
    credentials_of,
    endpoint_of,
    is_untrusted,
    patience_of,
    proxy_for,
    read_credentials,
    verifying,
)
from path_mapping.wire.credentials import STALL_SECONDS, Access, Credentials, Pause
from path_mapping.wire.found_object import ObjectState, StoredObject
from path_mapping.wire.http_connection import ConnectionFailed, HttpConnection, Origin, Response
from path_mapping.wire.object_list import ObjectPage, check_order, parsed_page, parsed_upload
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
from path_mapping.wire.signature import OBS, S3, BucketAddress, SignatureKind, SignedRequest, signed

__all__ = [
    "KEY_VARIABLES",
    "OBS",
    "S3",
    "STALL_SECONDS",
    "Access",
    "BucketAddress",
    "ConnectionFailed",
    "ContentCheck",
    "Credentials",
    "HttpConnection",
    "ObjectPage",
    "ObjectState",
    "Origin",
    "PartDigests",
    "Pause",
    "Response",
    "SignatureKind",
    "SignedRequest",
    "StoredObject",
    "address_of",
    "base64_of_md5",
    "bucket_in_path",
    "check_order",
    "compare",
    "crc64_of_content",
    "credentials_of",
    "endpoint_of",
    "error_of_status",
    "etag_of_parts",
    "is_untrusted",
    "likely_part_sizes",
    "md5_of_content",
    "md5_of_etag",
    "object_state",
    "parsed_page",
    "parsed_upload",
    "part_sizes_of",
    "parts_of_content",
    "patience_of",
    "proxy_for",
    "read_credentials",
    "seconds_to_wait",
    "signed",
    "verifying",
]
