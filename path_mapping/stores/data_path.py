"""Runs units by signed HTTP requests of our own, which cost less CPU than the SDK's: one thread at a time."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

from path_mapping.localfs import RangeReader
from path_mapping.stores.download_path import DownloadPath
from path_mapping.stores.exchange import Exchange
from path_mapping.stores.obs_store import ObsStore
from path_mapping.stores.units import (
    BeginParts,
    CheckFile,
    EndParts,
    GetFile,
    GetRange,
    PutFile,
    PutPart,
    Unit,
    UnitRunner,
)
from path_mapping.stores.upload_path import UploadPath
from path_mapping.wire import Access, Credentials, OpenConnections

# Bytes: a small object arrives in one piece, a large one with few system calls. Larger writes are no faster,
# and take up to twice as long on a virtual machine: they become large folios, of memory that the host has yet
# to give.
BUFFER = 1 << 19

Moved = Callable[[int], None]


class DataPaths:
    """The data paths of a process, one for each thread; they share the SDK's clients.

    Raises:
        CredentialsMissing: the endpoint or the CA bundle is unusable.
    """

    def __init__(self, access: Access) -> None:
        self._store = ObsStore(access)
        self._connections = OpenConnections()

    def new(self) -> DataPath:
        """A data path for one thread."""
        buffer = bytearray(BUFFER)
        return DataPath(self._store, Exchange(self._store.signer, self._connections, buffer), buffer)

    def use(self, keys: Credentials) -> None:
        """Signs with these credentials from now on."""
        self._store.signer.use(keys)

    def shut(self) -> None:
        """Makes the requests of all threads fail with `Cancelled`, now and from now on."""
        self._connections.shut()


class DataPath(UnitRunner):
    """Runs the units of one thread."""

    def __init__(self, store: ObsStore, exchange: Exchange, buffer: bytearray) -> None:
        reader = RangeReader(buffer, exchange.check)
        self._exchange = exchange
        self._downloads = DownloadPath(exchange, reader)
        self._uploads = UploadPath(store, exchange, reader)
        self._actions: Dict[type, Callable[[Any, Moved], Any]] = {
            GetFile: self._downloads.get_file,
            GetRange: self._downloads.get_range,
            CheckFile: self._downloads.check_file,
            PutFile: self._uploads.put_file,
            PutPart: self._uploads.put_part,
            BeginParts: self._uploads.begin_parts,
            EndParts: self._uploads.end_parts,
        }

    def run(self, unit: Unit, moved: Moved) -> Any:
        return self._actions[type(unit)](unit, moved)

    def ask_ahead(self, units: Sequence[Unit]) -> None:
        by_bucket: Dict[str, List[GetFile]] = {}
        for unit in units:
            if isinstance(unit, GetFile):
                by_bucket.setdefault(unit.bucket, []).append(unit)
        for of_one in by_bucket.values():
            self._downloads.ask_ahead(of_one)

    def given_up(self, unit: Unit, error: Exception) -> Exception:
        return self._uploads.given_up(unit, error) if isinstance(unit, PutFile) else error

    def close(self) -> None:
        self._downloads.close()
        self._exchange.close()
