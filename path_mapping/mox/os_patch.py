"""`shift('os', 'mox')`: Python's own file functions, which take URLs of OBS as well."""

from __future__ import annotations

import builtins
import functools
import glob
import os
import shutil
from typing import Any, Callable, Dict, Tuple

from path_mapping import file as mox

_SCHEMES = ("obs://", "s3://")
_originals: Dict[Tuple[Any, str], Any] = {}


def _stat(path: str, **settings: Any) -> os.stat_result:
    found = mox.stat(path)
    mode, seconds = 0o040750 if found.is_directory else 0o100640, found.mtime_nsec // 10**9
    return os.stat_result((mode, 0, 0, 1, 0, 0, found.length, seconds, seconds, seconds))


def _is_file(path: str) -> bool:
    return mox.exists(path) and not mox.is_directory(path)


def _make_dirs(path: str, mode: int = 0o777, exist_ok: bool = False) -> None:
    if not exist_ok and mox.exists(path):
        raise FileExistsError(17, "File exists", path)
    mox.make_dirs(path)


def _open(path: str, mode: str = "r", *settings: Any, **more: Any) -> Any:
    return mox.File(path, mode)


def _remove(path: str, **settings: Any) -> None:
    if not mox.exists(path):
        raise mox.MoxFileNotExistsException(f"{path}: no such file or directory")
    mox.remove(path)


def _copy_tree(source: str, target: str, *settings: Any, **more: Any) -> str:
    mox.copy_parallel(source, target)
    return target


def _copy_file(source: str, target: str, **settings: Any) -> str:
    mox.copy(source, target)
    return target


_FUNCTIONS: Tuple[Tuple[Any, str, Callable[..., Any]], ...] = (
    (builtins, "open", _open),
    (glob, "glob", lambda pattern, **settings: mox.glob(pattern)),
    (os, "listdir", mox.list_directory),
    (os, "makedirs", _make_dirs),
    (os, "mkdir", lambda path, mode=0o777: mox.mk_dir(path)),
    (os, "remove", _remove),
    (os, "rename", mox.rename),
    (os, "scandir", mox.scan_dir),
    (os, "stat", _stat),
    (os, "walk", mox.walk),
    (os.path, "exists", mox.exists),
    (os.path, "getsize", mox.get_size),
    (os.path, "isdir", mox.is_directory),
    (os.path, "isfile", _is_file),
    (shutil, "copyfile", _copy_file),
    (shutil, "copytree", _copy_tree),
    (shutil, "rmtree", lambda path, *settings, **more: mox.remove(path, recursive=True)),
)


def shift_to_urls() -> None:
    """Replaces them, once; local paths go where they went before."""
    for module, name, on_urls in _FUNCTIONS:
        if (module, name) not in _originals:
            original = _originals[module, name] = getattr(module, name)
            setattr(module, name, _either(original, on_urls))


def shift_back() -> None:
    """Puts Python's own back."""
    while _originals:
        (module, name), original = _originals.popitem()
        setattr(module, name, original)


def _either(original: Callable[..., Any], on_urls: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(*arguments: Any, **settings: Any) -> Any:
        given = [one for one in arguments[:2] if isinstance(one, str)]
        chosen = on_urls if any(one.startswith(_SCHEMES) for one in given) else original
        return chosen(*arguments, **settings)

    return function
