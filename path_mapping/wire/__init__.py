"""What goes to OBS and comes back: HTTP connections, and what the responses mean."""

from path_mapping.wire.access import (
    KEY_VARIABLES as KEY_VARIABLES,
    address_of as address_of,
    bucket_in_path as bucket_in_path,
    credentials_of as credentials_of,
    endpoint_of as endpoint_of,
    is_untrusted as is_untrusted,
    patience_of as patience_of,
    proxy_for as proxy_for,
    read_credentials as read_credentials,
    verifying as verifying,
)
from path_mapping.wire.credentials import (
    STALL_SECONDS as STALL_SECONDS,
    Access as Access,
    Credentials as Credentials,
    Pause as Pause,
)
from path_mapping.wire.found_object import ObjectState as ObjectState, StoredObject as StoredObject
from path_mapping.wire.http_connection import (
    ConnectionFailed as ConnectionFailed,
    HttpConnection as HttpConnection,
    Origin as Origin,
    Response as Response,
)
from path_mapping.wire.object_list import (
    ObjectPage as ObjectPage,
    check_order as check_order,
    parsed_completion as parsed_completion,
    parsed_page as parsed_page,
    parsed_upload as parsed_upload,
    parts_document as parts_document,
)
from path_mapping.wire.obs_responses import (
    CRC64 as CRC64,
    CRC64_HEADERS as CRC64_HEADERS,
    ContentCheck as ContentCheck,
    ContentSum as ContentSum,
    base64_of_md5 as base64_of_md5,
    checked_size as checked_size,
    compare as compare,
    crc64_of_content as crc64_of_content,
    error_of_status as error_of_status,
    etag_of_parts as etag_of_parts,
    md5_of_content as md5_of_content,
    md5_of_etag as md5_of_etag,
    object_state as object_state,
    parts_of_content as parts_of_content,
    seconds_to_wait as seconds_to_wait,
    summed as summed,
)
from path_mapping.wire.open_connections import OpenConnections as OpenConnections
from path_mapping.wire.part_digests import PartDigests as PartDigests
from path_mapping.wire.part_sizes import (
    likely_part_sizes as likely_part_sizes,
    part_sizes_of as part_sizes_of,
)
from path_mapping.wire.redirects import (
    MOST_REDIRECTS as MOST_REDIRECTS,
    REDIRECTS as REDIRECTS,
    redirected as redirected,
)
from path_mapping.wire.signature import (
    OBS as OBS,
    S3 as S3,
    BucketAddress as BucketAddress,
    SignatureKind as SignatureKind,
    SignedRequest as SignedRequest,
    request_head as request_head,
    signed as signed,
)
