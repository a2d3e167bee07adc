"""For training code: the `moxing_wrapper` of MindSpore's model zoo, without its lock files."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any, Callable, Optional

from ma_boot.training.environment import group_size
from ma_boot.training.once_per_node import in_turn, once_per_node

Step = Callable[[], Any]
_FETCHED = (("data_url", "data_path"), ("checkpoint_url", "load_path"), ("train_url", "output_path"))


def moxing_wrapper(
    pre_process: Optional[Step] = None, post_process: Optional[Step] = None, config: Any = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that fetches a training's inputs before it and brings its output home after it.

    It does so where `config.enable_modelarts` is true, as the model zoo's `model_utils.moxing_adapter` does:
    `data_url` to `data_path`, `checkpoint_url` to `load_path` and what `train_url` has already to
    `output_path`; `device_num` and `device_id` as this process has them; `pre_process`; the training;
    `post_process`; `output_path` to `train_url`. `config` is the variable of that name beside the decorated
    function where none is given, as the zoo's scripts import it.

    Unlike there, inputs come once to a node, and when the process that fetches them dies another one does it;
    the output goes home when the training fails too, and nothing is moved twice; an input that does not exist
    is an error. A training that is ended by a signal brings nothing home here: `ma_boot --path-mapping` does.
    """

    def wrapper(run: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(run)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            settings = _settings(config, run)
            if not getattr(settings, "enable_modelarts", False):
                return run(*args, **kwargs)
            _fetch(settings)
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
                _bring_home_after_failure(settings)
                raise
            _bring_home(settings)
            return result

        return wrapped

    return wrapper


def _settings(config: Any, run: Callable[..., Any]) -> Any:
    found = config if config is not None else getattr(run, "__globals__", {}).get("config")
    if found is None:
        raise ValueError(
            f"moxing_wrapper: there is no `config` beside {run.__name__}; give it: moxing_wrapper(config=...)"
        )
    return found


def _fetch(settings: Any) -> None:
    for url_name, path_name in _FETCHED:
        url, path = getattr(settings, url_name, None), getattr(settings, path_name, None)
        if not url or not path or _same(url, path):
            continue
        name = f"{os.getuid()} from {url} to {os.path.abspath(path)}"
        once_per_node(name, functools.partial(_copy, url, path, url_name != "train_url"))


def _bring_home(settings: Any) -> None:
    """Every process does, in turn: what is there already is not moved again, so the last one has the rest."""
    url, path = getattr(settings, "train_url", None), getattr(settings, "output_path", None)
    if url and path and not _same(url, path) and os.path.isdir(path) and os.listdir(path):
        name = f"{os.getuid()} from {os.path.abspath(path)} to {url}"
        in_turn(name, functools.partial(_copy, path, url, True))


def _bring_home_after_failure(settings: Any) -> None:
    """The training's own failure comes first: what goes wrong here is said only."""
    try:
        _bring_home(settings)
    except Exception as error:  # whatever it is, the training's failure must not be hidden by it
        sys.stderr.write(f"moxing_wrapper: the output was not brought home: {error}\n")


def _same(url: str, path: str) -> bool:
    """The platform hands over directories that it has filled already, by their local paths."""
    return "://" not in url and os.path.abspath(url) == os.path.abspath(path)


def _copy(source: str, target: str, required: bool) -> None:
    try:
        from path_mapping import file
    except ModuleNotFoundError as error:
        raise _without(error) from error
    try:
        if not required and not file.exists(source):
            return
        file.copy_parallel(source, target)
    except ModuleNotFoundError as error:
        raise _without(error) from error


def _without(error: ModuleNotFoundError) -> RuntimeError:
    package = {"obs": "esdk-obs-python"}.get(error.name or "", error.name)
    return RuntimeError(
        f"moxing_wrapper: the training's environment has no {package}, which talks to OBS: install it, or "
        "let ma_boot move the files (--path-mapping)"
    )
