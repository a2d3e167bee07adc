"""What goes to OBS and comes back: HTTP connections, and what the responses mean."""

from path_mapping.wire.access import (
    KEY_VARIABLES as KEY_VARIABLES,
    MOST_REDIRECTS as MOST_REDIRECTS,
    REDIRECTS as REDIRECTS,
    STALL_SECONDS as STALL_SECONDS,
    Access as Access,
    Credentials as Credentials,
    Pause as Pause,
    Proxy as Proxy,
    address_of as address_of,
    bucket_in_path as bucket_in_path,
    credentials_of as credentials_of,
    endpoint_of as endpoint_of,
    is_untrusted as is_untrusted,
    patience_of as patience_of,
    proxy_for as proxy_for,
    read_credentials as read_credentials,
    redirected as redirected,
    verifying as verifying,
)
from path_mapping.wire.contents import (
    RIGHT as RIGHT,
    UNKNOWN as UNKNOWN,
    UNSURE as UNSURE,
    WRONG as WRONG,
    ContentMatch as ContentMatch,
    ContentSum as ContentSum,
    Piece as Piece,
    base64_of_md5 as base64_of_md5,
    compared as compared,
    etag_of_parts as etag_of_parts,
    summed as summed,
)
from path_mapping.wire.http_connection import (
    ConnectionFailed as ConnectionFailed,
    HttpConnection as HttpConnection,
    OpenConnections as OpenConnections,
    Origin as Origin,
    Response as Response,
)
from path_mapping.wire.objects import (
    Checksums as Checksums,
    ObjectState as ObjectState,
    StoredObject as StoredObject,
    md5_of_etag as md5_of_etag,
    part_sizes_of as part_sizes_of,
)
from path_mapping.wire.responses import (
    ObjectPage as ObjectPage,
    checked_size as checked_size,
    error_of_status as error_of_status,
    object_state as object_state,
    parsed_completion as parsed_completion,
    parsed_page as parsed_page,
    parsed_upload as parsed_upload,
    parts_document as parts_document,
    seconds_to_wait as seconds_to_wait,
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
