"""Copies and moves files and directories: local to local, to OBS, from OBS, and within OBS."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Callable

from path_mapping.errors import Forbidden, Replaced, StoreError, TransferFailed
from path_mapping.file.file_tree import (
    MoxFileNotExistsException,
    is_directory,
    list_directory,
    missing,
    state_of_object,
    store,
    url_of,
)
from path_mapping.localfs.atomic_file import write_verified
from path_mapping.localfs.source_file import FileState, chunks, state_of
from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.mapping.selection import literal_pattern
from path_mapping.planning.prepare import UploadChoice
from path_mapping.stores.objects import StoredObject
from path_mapping.transfer.transfer import Transferred, download, download_file, upload, upload_file
from path_mapping.workers.retry import RetriedStore

# Objects that are copied within OBS at a time, each by one request.
COPIES = 16
# Missing files that a message names.
MOST_NAMED = 20


def copy(src_url: str, dst_url: str, **_: Any) -> None:
    """Copies one file over whatever is at the destination, which is a directory if it ends with `/`.

    Raises:
        MoxFileNotExistsException: there is no such source file.
        StoreError: a request failed, also after retries; `MoxFileRespException` is the same class.
        OSError: the local file cannot be read or written.
    """
    source, target = url_of(src_url), _target_of(src_url, dst_url)
    to = url_of(target)
    if source is None:
        if not os.path.isfile(src_url):
            raise missing(src_url)
        if to is None:
            write_verified(Path(target), chunks(Path(src_url)), os.path.getsize(src_url), None)
        else:
            upload_file(store().store, Path(os.path.abspath(src_url)), to.bucket, to.key)
        return
    state = state_of_object(source)
    if state is None:
        raise missing(src_url)
    if to is None:
        local = Path(os.path.abspath(target))
        download_file(store().store, source.bucket, source.key, state, local)
    else:
        store().copy(source.bucket, source.key, state.size, to.bucket, to.key)


def _target_of(src_url: str, dst_url: str) -> str:
    """Returns the path of a copied file: in the destination, if that is a bucket or ends with `/`."""
    place = url_of(dst_url)
    if place is not None and not place.key:
        dst_url = dst_url.rstrip("/") + "/"
    return dst_url + posixpath.basename(src_url) if dst_url.endswith("/") else dst_url


def copy_parallel(src_url: str, dst_url: str, file_list: Sequence[str] | None = None, **_: Any) -> None:
    """Copies everything below a directory, or only the relative paths in `file_list`; or a single file.

    Between local paths and OBS, files that have the same content on both sides, by the ETag, are skipped. No
    record is left on the disk. The transfer chooses the number of threads and processes itself: MoXing's
    `threads`, `is_processing` and `use_queue` are accepted and ignored.

    Raises the errors of `copy`, for a missing file of `file_list` before anything is copied; and
    `TransferFailed` if some files could not be copied for local reasons, after all others were.
    """
    source, target = url_of(src_url), url_of(dst_url)
    if file_list is None and not _is_directory(src_url):
        copy(src_url, dst_url)
        return
    names = None if file_list is None else {name.strip("/") for name in file_list}
    if names is not None:
        _check_existence(src_url, names)
        if not names:
            return
    if source is not None and target is not None:
        _copy_within(source, target, names)
    elif source is not None:
        below = ObsUrl(source.bucket, source.prefix)
        fetch = partial(download, recorded=False)
        way = Route(os.path.abspath(dst_url), below, include=_patterns(names), required=False)
        _transfer(fetch, way, src_url)
    elif target is not None:
        # By content: another process may have overwritten an object since this one uploaded it.
        below = ObsUrl(target.bucket, target.prefix)
        local = os.path.abspath(src_url)
        send = partial(upload, choice=UploadChoice(recorded=False))
        _transfer(send, Route(local, below, include=_patterns(names), checksum=True), src_url)
    else:
        for name in filter(
            partial(_is_chosen, names), list_directory(src_url, recursive=True, skip_dir=True)
        ):
            copy(os.path.join(src_url, name), os.path.join(dst_url, name))


def _is_directory(src_url: str) -> bool:
    """Tells whether everything below a path is to be copied; what must not be listed is a single object."""
    try:
        return is_directory(src_url)
    except Forbidden as error:
        source = url_of(src_url)
        assert source is not None
        store().only_object(source.bucket, source.key, error)
        return False


def _copy_within(source: ObsUrl, target: ObsUrl, names: set[str] | None) -> None:
    """Copies objects by requests in parallel; the first that fails ends it after those in progress."""
    used = store()  # the threads of the pool would each open a store of their own

    def copy_object(item: tuple[str, StoredObject]) -> None:
        name, stored = item
        used.copy(source.bucket, stored.key, stored.size, target.bucket, target.prefix + name)

    chosen = [(name, stored) for name, stored in _objects_below(source) if _is_chosen(names, name)]
    with ThreadPoolExecutor(COPIES) as pool:
        list(pool.map(copy_object, chosen))


def _patterns(names: set[str] | None) -> tuple[str, ...]:
    return tuple(map(literal_pattern, sorted(names or ())))


def _is_chosen(names: set[str] | None, name: str) -> bool:
    return names is None or not names.isdisjoint(_with_parents(name))


def _check_existence(src_url: str, names: set[str]) -> None:
    """Raises `MoxFileNotExistsException` with the names that do not exist below the URL."""
    source = url_of(src_url)
    if source is None:
        absent = sorted(name for name in names if not os.path.lexists(os.path.join(src_url, name)))
    else:
        absent = sorted(
            names - {parent for name, _ in _objects_below(source) for parent in _with_parents(name)}
        )
    if absent:
        raise MoxFileNotExistsException(f"{src_url}: found no {_shown(absent)}; nothing was copied")


def _shown(names: list[str]) -> str:
    """Returns the first names, as a message lists them."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _objects_below(place: ObsUrl) -> Iterator[tuple[str, StoredObject]]:
    """Yields the objects below a URL, each with its relative path."""
    start = len(place.prefix)
    return ((stored.key[start:], stored) for stored in store().list(place.bucket, place.prefix))


def _with_parents(name: str) -> list[str]:
    parts = name.rstrip("/").split("/")
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _transfer(
    move: Callable[[Sequence[Route], Path, RetriedStore], Transferred], route: Route, url: str
) -> None:
    try:
        done = move([route], Path("/"), store())
    except TransferFailed as error:
        if all(isinstance(failure.error, StoreError) for failure in error.failures):
            # Callers of MoXing catch its `MoxFileRespException`, which is this class.
            raise StoreError(str(error)) from error
        raise
    if done.missing:
        raise missing(url)


def rename(src_url: str, dst_url: str, **_: Any) -> None:
    """Moves a file or a directory: atomically between local paths, otherwise by a copy and a deletion.

    A move to the same place does nothing. The source is deleted only after everything has been copied.

    Raises:
        OSError: a directory into itself or over one of its parents, before anything is moved; or some files
            of a local directory could not be moved, and are still in their places.
        Replaced: objects were replaced meanwhile, and are still in their places.

    Raises the errors of `copy_parallel`, too; then nothing was deleted.
    """
    source, target = url_of(src_url), url_of(dst_url)
    if source is None:
        if target is None:
            os.rename(src_url, dst_url)
        else:
            _upload_and_delete(src_url, dst_url, target)
    elif state_of_object(source) is not None:
        _move_object(source, src_url, dst_url)
    elif is_directory(src_url):
        if target is not None and _is_same(source, target, src_url, dst_url):
            return
        _move_objects(source, src_url, dst_url)
    else:
        raise missing(src_url)


def _is_same(source: ObsUrl, target: ObsUrl, src_url: str, dst_url: str) -> bool:
    """Tells whether two directories are the same; raises `OSError` if one is inside the other."""
    own, other = source.prefix, target.prefix
    if source.bucket != target.bucket:
        return False
    if own != other and other.startswith(own):
        raise OSError(errno.EINVAL, "a directory cannot be moved into itself", src_url, None, dst_url)
    if own != other and own.startswith(other):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), src_url, None, dst_url)
    return own == other


def _move_object(source: ObsUrl, src_url: str, dst_url: str) -> None:
    if url_of(_target_of(src_url, dst_url)) == source:
        return
    before = state_of_object(source)
    copy(src_url, dst_url)
    if state_of_object(source) != before:
        raise Replaced(f"{src_url} was replaced while it was copied, and is still in its place")
    store().delete(source.bucket, source.key)


def _move_objects(source: ObsUrl, src_url: str, dst_url: str) -> None:
    before = list(store().list(source.bucket, source.prefix))
    copy_parallel(src_url, dst_url)
    after = {stored.key: stored for stored in store().list(source.bucket, source.prefix)}
    to_local = url_of(dst_url) is None
    moved = {
        stored.key
        for stored in before
        if after.get(stored.key) == stored and not (to_local and stored.key.endswith("/") and stored.size)
    }
    store().delete_all(source.bucket, sorted(moved))
    kept = [stored.key for stored in before if stored.key in after and stored.key not in moved]
    if kept:
        raise Replaced(f"{src_url}: not moved, as they were replaced or are no files: {_shown(kept)}")


def _upload_and_delete(src_url: str, dst_url: str, target: ObsUrl) -> None:
    if not os.path.isdir(src_url):
        before = _states([src_url])
        copy(src_url, dst_url)
        if _states([src_url]) != before:
            raise OSError(errno.EBUSY, "the file changed while it was moved, and is still there", src_url)
        os.unlink(src_url)
        return
    paths = [os.path.join(top, name) for top, _, names in os.walk(src_url) for name in names]
    before = _states(paths)
    copy_parallel(src_url, dst_url)
    sizes = {name: stored.size for name, stored in _objects_below(target)}
    for path, state in _states(paths).items():
        if before.get(path) == state and sizes.get(os.path.relpath(path, src_url)) == state.size:
            os.unlink(path)
    kept: list[str] = []
    for top, _, _ in os.walk(src_url, topdown=False):
        try:
            os.rmdir(top)
        except OSError:
            kept += [path for path in map(partial(os.path.join, top), os.listdir(top)) if not _is_dir(path)]
    if os.path.isdir(src_url):
        raise OSError(errno.EBUSY, f"not moved, as they changed or are no files: {_shown(kept)}", src_url)


def _is_dir(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _states(paths: list[str]) -> dict[str, FileState]:
    """Returns the states of the files that exist; links are followed, as the upload does."""
    states: dict[str, FileState] = {}
    for path in paths:
        with suppress(FileNotFoundError):
            states[path] = state_of(os.stat(path))
    return states
