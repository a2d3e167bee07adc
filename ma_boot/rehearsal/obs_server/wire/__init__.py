"""HTTP as the server speaks it: requests, signatures, bodies, responses, and faults of all of them."""

from ma_boot.rehearsal.obs_server.wire import responses
from ma_boot.rehearsal.obs_server.wire.body import CHUNK, Body, Received
from ma_boot.rehearsal.obs_server.wire.connection import Connection
from ma_boot.rehearsal.obs_server.wire.faults import ObsFault, take
from ma_boot.rehearsal.obs_server.wire.request import HttpRequest, is_modified, parse_head, wanted_range
from ma_boot.rehearsal.obs_server.wire.responses import HttpResponse, ListingQuery
from ma_boot.rehearsal.obs_server.wire.signatures import SIGNED_PARAMETERS, KeyPair, verify

__all__ = [
    "CHUNK",
    "SIGNED_PARAMETERS",
    "Body",
    "Connection",
    "HttpRequest",
    "HttpResponse",
    "KeyPair",
    "ListingQuery",
    "ObsFault",
    "Received",
    "is_modified",
    "parse_head",
    "responses",
    "take",
    "verify",
    "wanted_range",
]
