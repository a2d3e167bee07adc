"""Copies and moves files and directories: local to local, to OBS, from OBS, and within OBS."""

from __future__ import annotations

import os
import posixpath
import re
import threading
from pathlib import Path
from typing import Any, Callable, Optional, Sequence

from path_mapping.errors import MissingInputs, StoreError, TransferFailed
from path_mapping.localfs import chunks, write_verified
from path_mapping.mapping import ObsUrl, Route
from path_mapping.mox.file_tree import (
    is_directory,
    is_object,
    list_directory,
    missing,
    prefix_of,
    remove,
    url_of,
)
from path_mapping.mox.own_store import store
from path_mapping.transfer import download, upload


def copy(src_url: str, dst_url: str, **_: Any) -> None:
    """Copies one file. A destination that ends with `/` is a directory.

    Raises:
        MoxFileNotExistsException: there is no such source file.
        StoreError: a request failed, also after retries; `MoxFileRespException` is the same class.
        OSError: the local file cannot be read or written.
    """
    if dst_url.endswith("/"):
        dst_url += posixpath.basename(src_url)
    source, target = url_of(src_url), url_of(dst_url)
    if source is None:
        if not os.path.isfile(src_url):
            raise missing(src_url)
        if target is None:
            write_verified(Path(dst_url), chunks(Path(src_url)), os.path.getsize(src_url), None)
        else:
            _transfer(upload, Route(os.path.abspath(src_url), target), dst_url)
    elif not is_object(source):
        raise missing(src_url)
    elif target is None:
        _transfer(download, Route(os.path.abspath(dst_url), source), src_url)
    else:
        store().copy(source.bucket, source.key, target.bucket, target.key)


def copy_parallel(src_url: str, dst_url: str, file_list: Optional[Sequence[str]] = None, **_: Any) -> None:
    """Copies everything below a directory, or only the relative paths in `file_list`; or a single file.

    The transfer chooses the number of threads and processes itself: MoXing's `threads`, `is_processing` and
    `use_queue` are accepted and ignored. Raises what `copy` raises, and `TransferFailed` when some files
    could not be copied for local reasons, after all others were.
    """
    source, target = url_of(src_url), url_of(dst_url)
    if file_list is None and not is_directory(src_url):
        copy(src_url, dst_url)
        return
    chosen = tuple("/" + re.sub(r"([\\*?\[\]!# ])", r"\\\1", name) for name in file_list or ())
    if file_list is not None and not chosen:
        return
    if source is not None and target is not None:
        for one in list(store().list(source.bucket, prefix_of(source))):
            name = one.key[len(prefix_of(source)) :]
            if file_list is None or name in file_list:
                store().copy(source.bucket, one.key, target.bucket, prefix_of(target) + name)
    elif source is not None:
        below = ObsUrl(source.bucket, prefix_of(source))
        _transfer(download, Route(os.path.abspath(dst_url), below, include=chosen), src_url)
    elif target is not None:
        below = ObsUrl(target.bucket, prefix_of(target))
        _transfer(upload, Route(os.path.abspath(src_url), below, include=chosen), src_url)
    else:
        wanted = None if file_list is None else set(file_list)
        for name in list_directory(src_url, recursive=True, skip_dir=True):
            if wanted is None or name in wanted:
                copy(os.path.join(src_url, name), os.path.join(dst_url, name))


def rename(src_url: str, dst_url: str, **_: Any) -> None:
    """Moves a file or a directory: atomically between local paths, otherwise by a copy and a deletion.

    Raises what `copy_parallel` raises; the source is deleted only after everything has been copied.
    """
    if url_of(src_url) is None and url_of(dst_url) is None:
        os.rename(src_url, dst_url)
        return
    if is_directory(src_url):
        copy_parallel(src_url, dst_url)
    else:
        copy(src_url, dst_url)
    remove(src_url, recursive=True)


def _transfer(move: Callable[..., Any], route: Route, url: str) -> None:
    try:
        done = move([route], Path("/"), store(), cancel=threading.Event(), progress=lambda now: None)
    except MissingInputs as error:
        raise missing(url) from error
    except TransferFailed as error:
        if all(isinstance(failure.error, StoreError) for failure in error.failures):
            raise StoreError(str(error)) from error  # what MoXing's callers catch
        raise
    if done.missing:
        raise missing(url)
