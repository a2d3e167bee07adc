"""Object stores: OBS, or a directory in its place, and the HTTP requests to OBS."""

from path_mapping.stores.access import KEY_VARIABLES, endpoint_of, read_credentials
from path_mapping.stores.open_store import open_data_paths, open_store, open_store_path
from path_mapping.stores.store import (
    STALL_SECONDS,
    Access,
    Credentials,
    FileStore,
    SignedAccess,
    Store,
    StoredObject,
)
from path_mapping.stores.units import (
    BeginParts,
    EndParts,
    FetchedRange,
    GetFile,
    GetRange,
    MultipartUpload,
    PutFile,
    PutPart,
    Unit,
    UnitRunner,
    bytes_of,
)

__all__ = [
    "KEY_VARIABLES",
    "STALL_SECONDS",
    "Access",
    "BeginParts",
    "Credentials",
    "EndParts",
    "FetchedRange",
    "FileStore",
    "GetFile",
    "GetRange",
    "MultipartUpload",
    "PutFile",
    "PutPart",
    "SignedAccess",
    "Store",
    "StoredObject",
    "Unit",
    "UnitRunner",
    "bytes_of",
    "endpoint_of",
    "open_data_paths",
    "open_store",
    "open_store_path",
    "read_credentials",
]
