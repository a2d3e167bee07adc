"""HTTP as the server speaks it: requests, signatures, bodies, responses, and faults of all of them."""

from ma_boot.rehearsal.obs_server.wire import responses
from ma_boot.rehearsal.obs_server.wire.body import CHUNK, Body
from ma_boot.rehearsal.obs_server.wire.conditions import is_modified, wanted_range
from ma_boot.rehearsal.obs_server.wire.connection import Connection
from ma_boot.rehearsal.obs_server.wire.faults import MID_TRANSFER, ObsFault, damaged, error_of, take
from ma_boot.rehearsal.obs_server.wire.request import HttpRequest, address, bucket_in_host, parse
from ma_boot.rehearsal.obs_server.wire.responses import HttpResponse, ListingQuery
from ma_boot.rehearsal.obs_server.wire.signatures import SIGNED_PARAMETERS, KeyPair, prefix_of, verify

__all__ = [
    "CHUNK",
    "MID_TRANSFER",
    "SIGNED_PARAMETERS",
    "Body",
    "Connection",
    "HttpRequest",
    "HttpResponse",
    "KeyPair",
    "ListingQuery",
    "ObsFault",
    "address",
    "bucket_in_host",
    "damaged",
    "error_of",
    "is_modified",
    "parse",
    "prefix_of",
    "responses",
    "take",
    "verify",
    "wanted_range",
]
