"""The `moxing_wrapper` of MindSpore's model zoo, without its lock files."""

from __future__ import annotations

import functools
import hashlib
import os
import socket
import sys
from typing import Any, Callable

from ma_boot.training.environment import group_size

Step = Callable[[], Any]
_DOWNLOADS = (("data_url", "data_path"), ("checkpoint_url", "load_path"), ("train_url", "output_path"))


def moxing_wrapper(
    pre_process: Step | None = None, post_process: Step | None = None, config: Any = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a decorator that downloads the inputs before a training and uploads the output after it.

    If `config.enable_modelarts` is true, it works as the model zoo's `model_utils.moxing_adapter`: copies
    `data_url` to `data_path`, `checkpoint_url` to `load_path` and the current contents of `train_url` to
    `output_path`; sets `device_num` and `device_id` for this process; calls `pre_process`, the training and
    `post_process`; copies `output_path` to `train_url`. `config` defaults to the global variable of this name
    in the module of the decorated function, as the zoo's scripts import it.

    Unlike there, inputs are downloaded once per node, by another process if the first one dies; the output is
    uploaded if the training fails, too; nothing is copied twice; and a missing input is an error. Nothing is
    uploaded after a signal; use `ma_boot --path-mapping` for that. Raises `ValueError` if there is no
    `config`, `RuntimeError` if a package for OBS is not installed.
    """

    def wrapper(run: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(run)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            settings = _settings(config, run)
            if not getattr(settings, "enable_modelarts", False):
                return run(*args, **kwargs)
            _download(settings)
            settings.device_num = group_size(os.environ)
            settings.device_id = int(os.environ.get("DEVICE_ID", "0"))
            if getattr(settings, "output_path", None):
                os.makedirs(settings.output_path, exist_ok=True)
            try:
                if pre_process is not None:
                    pre_process()
                result = run(*args, **kwargs)
                if post_process is not None:
                    post_process()
            except BaseException:
                _upload_after_failure(settings)
                raise
            _upload(settings)
            return result

        return wrapped

    return wrapper


def _settings(config: Any, run: Callable[..., Any]) -> Any:
    settings = config if config is not None else getattr(run, "__globals__", {}).get("config")
    if settings is None:
        raise ValueError(
            f"moxing_wrapper: no `config` in the module of {run.__name__}: pass moxing_wrapper(config=...)"
        )
    return settings


def _download(settings: Any) -> None:
    for url_name, path_name in _DOWNLOADS:
        url, path = getattr(settings, url_name, None), getattr(settings, path_name, None)
        if not url or not path or _same(url, path):
            continue
        name = f"{os.getuid()} from {url} to {os.path.abspath(path)}"
        in_turn(name, functools.partial(_copy, url, path, url_name != "train_url"), once=True)


def _upload(settings: Any) -> None:
    """Uploads in one process at a time: each skips files that are there, so the last one uploads the rest."""
    url, path = getattr(settings, "train_url", None), getattr(settings, "output_path", None)
    if url and path and not _same(url, path) and os.path.isdir(path) and os.listdir(path):
        name = f"{os.getuid()} from {os.path.abspath(path)} to {url}"
        in_turn(name, functools.partial(_copy, path, url, True))


def _upload_after_failure(settings: Any) -> None:
    """Uploads, but only prints an error, so that it does not hide the error of the training."""
    try:
        _upload(settings)
    except Exception as error:
        sys.stderr.write(f"moxing_wrapper: the output was not uploaded: {error}\n")


def _same(url: str, path: str) -> bool:
    """Returns whether the URL is the local path: the platform passes directories that it has filled."""
    return "://" not in url and os.path.abspath(url) == os.path.abspath(path)


def _copy(source: str, target: str, required: bool) -> None:
    try:
        from path_mapping import file

        if required or file.exists(source):
            file.copy_parallel(source, target)
    except ModuleNotFoundError as error:
        package = {"obs": "esdk-obs-python"}.get(error.name or "", error.name)
        raise RuntimeError(
            f"moxing_wrapper: OBS needs {package} in the training's environment: install it, or let ma_boot "
            "transfer the files (--path-mapping)"
        ) from error


# The lock is not a file but the name of an abstract socket, which the kernel releases when its owner ends.
DONE = b"done"


def in_turn(name: str, work: Callable[[], None], once: bool = False) -> None:
    """Runs the work in every process of the node that calls this, in one at a time.

    With `once` the others return when one has done it. If it fails or the process dies, one of the waiting
    processes runs it. An exception is raised only in the process that ran the work.
    """
    while True:
        with _socket() as own:
            if _is_mine(own, name):
                work()
                if once:
                    _notify(own)
                return
        if _was_done(name):
            return


def _notify(own: socket.socket) -> None:
    """Notifies all processes that wait; a name released without that means that the work is not done."""
    own.setblocking(False)
    while True:
        try:
            follower, _ = own.accept()
        except BlockingIOError:
            return
        with follower:
            follower.sendall(DONE)


def _was_done(name: str) -> bool:
    """Waits for the process that holds the name; returns whether it has done the work."""
    with _socket() as peer:
        try:
            peer.connect(_address(name))
            return peer.recv(len(DONE)) == DONE
        # The other process has ended.
        except OSError:
            return False


def _socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


def _is_mine(own: socket.socket, name: str) -> bool:
    try:
        own.bind(_address(name))
    except OSError:
        return False
    own.listen(1024)
    return True


def _address(name: str) -> str:
    return "\0ma_boot-" + hashlib.sha256(name.encode()).hexdigest()
