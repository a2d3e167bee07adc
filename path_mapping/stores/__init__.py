"""Object stores: OBS, or a directory in its place, and the wire to them."""

from path_mapping.stores.access import endpoint_of
from path_mapping.stores.credentials import KEY_VARIABLES, read_credentials
from path_mapping.stores.file_store import FileStore, Known
from path_mapping.stores.open_store import open_store
from path_mapping.stores.store import STALL_SECONDS, Access, Credentials, Signing, Store, StoredObject

__all__ = [
    "KEY_VARIABLES",
    "STALL_SECONDS",
    "Access",
    "Credentials",
    "FileStore",
    "Known",
    "Signing",
    "Store",
    "StoredObject",
    "endpoint_of",
    "open_store",
    "read_credentials",
]
