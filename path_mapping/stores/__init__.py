"""Object stores: OBS, or a directory in its place, and the HTTP requests to OBS."""

from path_mapping.stores.access import (
    KEY_VARIABLES as KEY_VARIABLES,
    STALL_SECONDS as STALL_SECONDS,
    Access as Access,
    Credentials as Credentials,
    endpoint_of as endpoint_of,
    read_credentials as read_credentials,
    verifying as verifying,
)
from path_mapping.stores.contents import (
    RIGHT as RIGHT,
    UNKNOWN as UNKNOWN,
    UNSURE as UNSURE,
    WRONG as WRONG,
    ContentMatch as ContentMatch,
    ContentSum as ContentSum,
    matched as matched,
)
from path_mapping.stores.http_connection import OpenConnections as OpenConnections
from path_mapping.stores.objects import (
    Checksums as Checksums,
    ObjectState as ObjectState,
    StoredObject as StoredObject,
    part_sizes_of as part_sizes_of,
)
from path_mapping.stores.open_store import open_store as open_store, open_store_of as open_store_of
from path_mapping.stores.store import (
    MOST_DELETED as MOST_DELETED,
    Store as Store,
    UnfinishedUpload as UnfinishedUpload,
)
from path_mapping.stores.units import (
    BeginParts as BeginParts,
    CheckFile as CheckFile,
    EndParts as EndParts,
    FetchedRange as FetchedRange,
    GetFile as GetFile,
    GetRange as GetRange,
    MultipartUpload as MultipartUpload,
    PutFile as PutFile,
    PutPart as PutPart,
    StoredContent as StoredContent,
    StoredFile as StoredFile,
    Unit as Unit,
    UnitRunner as UnitRunner,
    bytes_of as bytes_of,
)
