"""Single files of a directory that stands for OBS: a part of `DirectoryStore`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Callable, Iterator, Optional

from path_mapping.errors import NotFound, Refused
from path_mapping.localfs import chunks, md5_of
from path_mapping.stores.file_store import Known
from path_mapping.stores.store import StoredObject


class DirectoryFiles:
    """The operations of `FileStore`, on what `DirectoryStore` has."""

    _path: Callable[[str, str], Path]
    list: Callable[[str, str], Iterator[StoredObject]]
    read: Callable[[str, str], Iterator[bytes]]
    write: Callable[[str, str, Path, str, Callable[[int], None]], None]

    def find(self, bucket: str, key: str) -> Optional[Known]:
        """The object; None where there is none."""
        path = self._path(bucket, key.rstrip("/"))
        if key.endswith("/"):
            empty = path.is_dir() and not any(path.iterdir())
            return Known(0, path.stat().st_mtime_ns) if empty else None
        return Known(path.stat().st_size, path.stat().st_mtime_ns) if path.is_file() else None

    def level(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        """What is right below the prefix; of a directory only its name."""
        last = ""
        for found in self.list(bucket, prefix):
            name, slash, _ = found.key[len(prefix) :].partition("/")
            if name and not slash:
                yield found
            elif name and name != last:
                last = name
                yield StoredObject(f"{prefix}{name}/", 0, None)

    def read_from(self, bucket: str, key: str, offset: int) -> Iterator[bytes]:
        """The bytes from this one on."""
        for piece in self.read(bucket, key):
            if offset < len(piece):
                yield piece[offset:]
            offset = max(0, offset - len(piece))

    def copy(self, bucket: str, key: str, to_bucket: str, to_key: str) -> None:
        """Copies a file, or makes a directory."""
        if self.find(bucket, key) is None:
            raise NotFound(f"copying obs://{bucket}/{key}: no such object")
        source = self._path(bucket, key.rstrip("/"))
        md5 = "" if key.endswith("/") else md5_of(chunks(source))
        self.write(to_bucket, to_key, source, md5, lambda size: None)

    def delete(self, bucket: str, key: str) -> None:
        """Deletes a file, and the directories that are empty then: OBS has none without a marker."""
        path = self._path(bucket, key.rstrip("/"))
        top = self._path(bucket, "x").parent
        try:
            path.rmdir() if key.endswith("/") else path.unlink()
        except FileNotFoundError:
            return
        except OSError as error:
            raise Refused(f"deleting obs://{bucket}/{key}: {error.strerror}") from error
        with suppress(OSError):  # not empty
            for parent in path.parents:
                if parent == top:
                    break
                parent.rmdir()
