"""Which operation a request means; and those on buckets."""

from __future__ import annotations

from typing import Callable, Dict, List, Tuple
from urllib.parse import unquote, unquote_plus

from ma_boot.rehearsal.obs_server import object_operations, part_operations
from ma_boot.rehearsal.obs_server.call import Call, texts
from ma_boot.rehearsal.obs_server.storage.listing import PAGE
from ma_boot.rehearsal.obs_server.storage.refusals import Refusal
from ma_boot.rehearsal.obs_server.wire import answers
from ma_boot.rehearsal.obs_server.wire.answers import Answer, Listing
from ma_boot.rehearsal.obs_server.wire.signatures import SIGNED_PARAMETERS

PLAIN = {  # parameters that choose no other operation
    "length",
    "name",
    "partNumber",
    "position",
    "versionId",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
}


def perform(call: Call) -> Answer:
    """Does what a request asks for; raises `Refusal`."""
    on = "object" if call.key else "bucket" if call.bucket_name else "service"
    chosen = {name for name in call.request.parameters if name.lower() in SIGNED_PARAMETERS} - PLAIN
    operation = ROUTES.get((call.request.method, on, *sorted(chosen)))
    if operation is None:
        raise Refusal("NotImplemented", f"{call.request.method} of a {on} with {sorted(chosen)}")
    return operation(call)


def list_buckets(call: Call) -> Answer:
    """All buckets."""
    return answers.buckets(call.store.buckets.names(), call.prefix)


def create_bucket(call: Call) -> Answer:
    """Makes the bucket; that it exists is no error."""
    call.store.buckets.create(call.bucket_name)
    return Answer(200, {"Location": f"/{call.bucket_name}"})


def head_bucket(call: Call) -> Answer:
    """Says whether the bucket exists."""
    call.need_bucket()
    return Answer(200)


def delete_bucket(call: Call) -> Answer:
    """Deletes the bucket, if it is empty."""
    call.store.buckets.delete(call.bucket_name)
    return Answer(204)


def location(call: Call) -> Answer:
    """Where the bucket is."""
    call.need_bucket()
    return answers.location(call.prefix)


def list_objects(call: Call) -> Answer:
    """One page of the objects, in the first or the second version of the listing."""
    version = call.parameter("list-type") or "1"
    token = unquote(call.parameter("continuation-token")) or call.parameter("start-after")
    asked = Listing(
        call.bucket_name,
        call.parameter("prefix"),
        token if version == "2" else call.parameter("marker"),
        call.parameter("delimiter"),
        call.number("max-keys", PAGE, PAGE),
        call.is_url_encoded,
        version,
    )
    page, found = call.bucket.page(asked.prefix, asked.marker, asked.delimiter, asked.limit)
    return answers.objects(asked, page, found, call.prefix)


def delete_objects(call: Call) -> Answer:
    """Deletes the objects that the body names."""
    root = call.document()
    encoded = texts(root, "EncodingType") == ["url"]
    keys: List[str] = texts(root, "Object/Key")
    if not keys or len(keys) > PAGE:
        raise Refusal("MalformedXML", f"1 to {PAGE} objects were expected")
    keys = [unquote_plus(key) for key in keys] if encoded else keys
    for key in keys:
        call.bucket.delete(key)
    return answers.deleted(keys, texts(root, "Quiet") == ["true"], encoded, call.prefix)


def put_object(call: Call) -> Answer:
    """Stores the body or a copy."""
    is_copy = call.header("copy-source") is not None
    return (object_operations.copy if is_copy else object_operations.put)(call)


ROUTES: Dict[Tuple[str, ...], Callable[[Call], Answer]] = {
    ("GET", "service"): list_buckets,
    ("PUT", "bucket"): create_bucket,
    ("HEAD", "bucket"): head_bucket,
    ("DELETE", "bucket"): delete_bucket,
    ("GET", "bucket"): list_objects,
    ("GET", "bucket", "location"): location,
    ("GET", "bucket", "uploads"): part_operations.pending,
    ("POST", "bucket", "delete"): delete_objects,
    ("PUT", "object"): put_object,
    ("GET", "object"): object_operations.get,
    ("HEAD", "object"): object_operations.get,
    ("DELETE", "object"): object_operations.delete,
    ("POST", "object", "append"): object_operations.append,
    ("POST", "object", "uploads"): part_operations.begin,
    ("POST", "object", "uploadId"): part_operations.complete,
    ("PUT", "object", "uploadId"): part_operations.put,
    ("GET", "object", "uploadId"): part_operations.parts,
    ("DELETE", "object", "uploadId"): part_operations.abort,
}
