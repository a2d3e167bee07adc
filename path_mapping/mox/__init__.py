"""The functions of MoXing's `mox.file` on local paths and OBS; `path_mapping.file` publishes them."""

from path_mapping.mox.copying import copy, copy_parallel
from path_mapping.mox.file_object import append, append_remote, open_file as File, read, write
from path_mapping.mox.file_tree import (
    Entry,
    MoxFileNameDuplicateException,
    MoxFileNotExistsException,
    MoxFileReadException,
    MoxFileRespException,
    Stat,
    exists,
    get_size,
    glob,
    is_directory,
    list_directory,
    make_dirs,
    mk_dir,
    remove,
    scan_dir,
    stat,
    walk,
)
from path_mapping.mox.moving import rename
from path_mapping.mox.os_patch import shift
from path_mapping.mox.own_store import set_auth

__all__ = [
    "Entry",
    "File",
    "MoxFileNameDuplicateException",
    "MoxFileNotExistsException",
    "MoxFileReadException",
    "MoxFileRespException",
    "Stat",
    "append",
    "append_remote",
    "copy",
    "copy_parallel",
    "exists",
    "get_size",
    "glob",
    "is_directory",
    "list_directory",
    "make_dirs",
    "mk_dir",
    "read",
    "remove",
    "rename",
    "scan_dir",
    "set_auth",
    "shift",
    "stat",
    "walk",
    "write",
]
