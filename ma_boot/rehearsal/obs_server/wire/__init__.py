"""HTTP as the server speaks it: requests, signatures, bodies, responses, and faults of all of them."""

from ma_boot.rehearsal.obs_server.wire import responses as responses
from ma_boot.rehearsal.obs_server.wire.body import CHUNK as CHUNK, Body as Body, Received as Received
from ma_boot.rehearsal.obs_server.wire.connection import Connection as Connection
from ma_boot.rehearsal.obs_server.wire.faults import ObsFault as ObsFault, take as take
from ma_boot.rehearsal.obs_server.wire.request import (
    HttpRequest as HttpRequest,
    is_modified as is_modified,
    parse_head as parse_head,
    wanted_range as wanted_range,
)
from ma_boot.rehearsal.obs_server.wire.responses import (
    HttpResponse as HttpResponse,
    ListingQuery as ListingQuery,
)
from ma_boot.rehearsal.obs_server.wire.signatures import (
    SIGNED_PARAMETERS as SIGNED_PARAMETERS,
    KeyPair as KeyPair,
    verify as verify,
)
