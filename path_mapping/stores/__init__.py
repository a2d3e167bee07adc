"""Object stores: OBS, or a directory in its place, and the HTTP requests to OBS."""

from path_mapping.stores.open_store import (
    open_data_paths as open_data_paths,
    open_store as open_store,
    open_store_path as open_store_path,
)
from path_mapping.stores.store import (
    MOST_DELETED as MOST_DELETED,
    FileStore as FileStore,
    MultipartStore as MultipartStore,
    SignedAccess as SignedAccess,
    Store as Store,
    UnfinishedUpload as UnfinishedUpload,
)
from path_mapping.stores.units import (
    RIGHT as RIGHT,
    UNKNOWN as UNKNOWN,
    UNSURE as UNSURE,
    WRONG as WRONG,
    BeginParts as BeginParts,
    CheckFile as CheckFile,
    ContentMatch as ContentMatch,
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
from path_mapping.wire import (
    KEY_VARIABLES as KEY_VARIABLES,
    STALL_SECONDS as STALL_SECONDS,
    Access as Access,
    Credentials as Credentials,
    ObjectState as ObjectState,
    PartDigests as PartDigests,
    StoredObject as StoredObject,
    endpoint_of as endpoint_of,
    etag_of_parts as etag_of_parts,
    part_sizes_of as part_sizes_of,
    read_credentials as read_credentials,
)
