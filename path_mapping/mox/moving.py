"""Moves files and directories. Only what was copied is deleted, and only if nobody has changed it since."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from functools import partial
from typing import Any, Dict, List

from path_mapping.errors import Replaced
from path_mapping.localfs import FileState, state_of
from path_mapping.mapping import ObsUrl
from path_mapping.mox.copying import copy, copy_parallel, shown, target_of
from path_mapping.mox.file_tree import is_directory, missing, prefix_of, state_of_object, url_of
from path_mapping.mox.own_store import store


def rename(src_url: str, dst_url: str, **_: Any) -> None:
    """Moves a file or a directory: atomically between local paths, otherwise by a copy and a deletion.

    To its own place nothing happens. The source is deleted only after everything has been copied.

    Raises:
        OSError: a directory into itself or over one of its parents, before anything is moved; or some files
            of a local directory could not be moved, and are where they were.
        Replaced: objects were replaced meanwhile, and are where they were.

    Raises also what `copy_parallel` raises; then nothing was deleted.
    """
    source, target = url_of(src_url), url_of(dst_url)
    if source is None and target is None:
        os.rename(src_url, dst_url)
    elif source is None:
        _upload_and_delete(src_url, dst_url)
    elif state_of_object(source) is not None:
        _move_object(source, src_url, dst_url)
    elif is_directory(src_url):
        if target is not None and _is_same(source, target, src_url, dst_url):
            return
        _move_objects(source, src_url, dst_url)
    else:
        raise missing(src_url)


def _is_same(source: ObsUrl, target: ObsUrl, src_url: str, dst_url: str) -> bool:
    """Whether two directories are the same; raises `OSError` if one is inside the other."""
    one, other = prefix_of(source), prefix_of(target)
    if source.bucket != target.bucket:
        return False
    if one != other and other.startswith(one):
        raise OSError(errno.EINVAL, "a directory cannot be moved into itself", src_url, None, dst_url)
    if one != other and one.startswith(other):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), src_url, None, dst_url)
    return one == other


def _move_object(source: ObsUrl, src_url: str, dst_url: str) -> None:
    if url_of(target_of(src_url, dst_url)) == source:
        return
    before = state_of_object(source)
    copy(src_url, dst_url)
    if state_of_object(source) != before:
        raise Replaced(f"{src_url} was replaced while it was copied, and is still in its place")
    store().delete(source.bucket, source.key)


def _move_objects(source: ObsUrl, src_url: str, dst_url: str) -> None:
    before = list(store().list(source.bucket, prefix_of(source)))
    copy_parallel(src_url, dst_url)
    after = {one.key: one for one in store().list(source.bucket, prefix_of(source))}
    to_local = url_of(dst_url) is None
    moved = {
        one.key
        for one in before
        if after.get(one.key) == one and not (to_local and one.key.endswith("/") and one.size)
    }
    store().delete_all(source.bucket, sorted(moved))
    kept = [one.key for one in before if one.key in after and one.key not in moved]
    if kept:
        raise Replaced(f"{src_url}: not moved, as they were replaced or are no files: {shown(kept)}")


def _upload_and_delete(src_url: str, dst_url: str) -> None:
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
    target = url_of(dst_url)
    assert target is not None
    prefix = prefix_of(target)
    stored = {one.key[len(prefix) :]: one.size for one in store().list(target.bucket, prefix)}
    for path, state in _states(paths).items():
        if before.get(path) == state and stored.get(os.path.relpath(path, src_url)) == state.size:
            os.unlink(path)
    kept: List[str] = []
    for top, _, _ in os.walk(src_url, topdown=False):
        try:
            os.rmdir(top)
        except OSError:
            kept += [path for path in map(partial(os.path.join, top), os.listdir(top)) if not _is_dir(path)]
    if os.path.isdir(src_url):
        raise OSError(errno.EBUSY, f"not moved, as they changed or are no files: {shown(kept)}", src_url)


def _is_dir(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _states(paths: List[str]) -> Dict[str, FileState]:
    """The states of the files that exist; links are followed, as the upload does."""
    found: Dict[str, FileState] = {}
    for path in paths:
        with suppress(FileNotFoundError):
            found[path] = state_of(os.stat(path))
    return found
