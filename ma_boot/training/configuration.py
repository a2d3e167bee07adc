"""Loads a configuration from a YAML file and the command line, with the types of the file's values."""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from ma_boot.redact import masked

CONFIG_PATH = "config_path"
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class Config(SimpleNamespace):
    """The settings as attributes; a nested mapping becomes a nested `Config`."""

    def __str__(self) -> str:
        """Lines of `name: value` with secrets masked: the model zoo's scripts print their configuration."""
        flat = {name: str(value) for name, value in _leaves(self)}
        return "\n".join(f"{name}: {value}" for name, value in masked(flat).items())

    __repr__ = __str__


def load_config(default: str = "default_config.yaml", argv: Sequence[str] | None = None) -> Config:
    """Loads the settings of a file, overridden by the command line: `--lr=0.1`, `--optimizer.momentum 0.9`.

    `default` is looked for next to the main script, then in the working directory; `--config_path FILE`
    selects another file. The file is YAML, or JSON if its name ends in `.json`; as in MindSpore's model zoo a
    second YAML document can contain help texts and a third one choices. A value on the command line is
    converted to the type of the file's value: a number, a boolean (`--flag` alone is true), a list (`[1, 2]`
    or `1,2`); if the file has null, it is parsed as a Python literal. `argv` defaults to `sys.argv[1:]`.

    Invalid values, and settings that the file does not have, are all reported before the program exits with
    code 2, as with argparse.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--" + CONFIG_PATH)
    named = first.parse_known_args(words)[0].config_path
    parser = argparse.ArgumentParser(allow_abbrev=False)
    try:
        file = _find(named, default)
        settings, helps, choices = _read(file)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    config = _as_config(settings)
    parser.add_argument("--" + CONFIG_PATH, metavar="FILE", help=f"the configuration file ({_plain(file)})")
    defaults = dict(_leaves(config))
    for name, value in defaults.items():
        if name != CONFIG_PATH:
            more: dict[str, Any] = {"nargs": "?", "const": "true"} if isinstance(value, bool) else {}
            text = f"{helps.get(name, '')} ({value})"
            parser.add_argument("--" + name, metavar="VALUE", help=_plain(text.strip()), **more)
    given, unknown = parser.parse_known_args(words)
    problems = [f"{word}: no such setting in {file}" for word in _first_words(unknown)]
    for name, text in vars(given).items():
        if text is not None and name in defaults:
            try:
                _set(config, name, convert(text, defaults[name]))
            except ValueError as error:
                problems.append(f"--{name}: {error}")
    for name, allowed in choices.items():
        value = dict(_leaves(config)).get(name)
        if isinstance(allowed, list) and name in defaults and value not in allowed:
            problems.append(f"--{name}: found {value!r}, expected one of {allowed}")
    if problems:
        parser.error("\n  ".join(["", *problems]) if len(problems) > 1 else problems[0])
    config.config_path = file
    return config


def _first_words(unknown: Sequence[str]) -> list[str]:
    """Returns the words without the values of unknown options, as in `--nothing 3`."""
    pairs = zip(["", *unknown], unknown)
    return [
        word for before, word in pairs if not before.startswith("--") or "=" in before or word[:2] == "--"
    ]


def convert(text: str, default: Any) -> Any:
    """Converts a text to the type of the default; raises `ValueError` if it cannot."""
    if isinstance(default, bool):
        if text.lower() not in _TRUE + _FALSE:
            raise ValueError(f"found {text!r}, expected true or false")
        return text.lower() in _TRUE
    if isinstance(default, (int, float)):
        kind = type(default)
        try:
            return kind(text)
        except ValueError:
            what = "an integer" if kind is int else "a number"
            raise ValueError(f"found {text!r}, expected {what}") from None
    if isinstance(default, (list, tuple)):
        return _list(text, default)
    return _literal(text) if default is None else text


def _list(text: str, default: Sequence[Any]) -> list[Any]:
    items = _literal(text) if text.strip().startswith(("[", "(")) else text.split(",") if text else []
    if not isinstance(items, (list, tuple)):
        raise ValueError(f"found {text!r}, expected a list such as [1, 2] or 1,2")
    if not default:
        return [_literal(item) if isinstance(item, str) else item for item in items]
    return [convert(item.strip(), default[0]) if isinstance(item, str) else item for item in items]


def _literal(text: str) -> Any:
    """Parses a number, list, boolean or None; returns any other text unchanged."""
    if text.lower() in ("true", "false", "null", "none"):
        return {"true": True, "false": False}.get(text.lower())
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _find(named: str | None, default: str) -> str:
    if named:
        if not os.path.isfile(named):
            raise ValueError(f"--{CONFIG_PATH} {named}: no such file (in {os.getcwd()})")
        return os.path.abspath(named)
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    places = [os.path.dirname(os.path.abspath(script))] if script else []
    files = [os.path.join(place, default) for place in [*places, os.getcwd()]]
    for file in files:
        if os.path.isfile(file):
            return file
    raise ValueError(f"no such file: {' or '.join(files)}; give one with --{CONFIG_PATH}")


def _read(file: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Reads settings, help texts and choices."""
    with open(file, encoding="utf-8") as stream:
        text = stream.read()
    try:
        documents = [json.loads(text)] if file.endswith(".json") else _yaml(text)
    except ValueError as error:
        raise ValueError(f"{file} cannot be read: {error}") from error
    parts = [{} if part is None else part for part in documents]
    if not parts or len(parts) > 3 or not all(isinstance(part, dict) for part in parts):
        raise ValueError(f"{file}: expected mappings of settings, of help texts, and of choices")
    settings, helps, choices = [*parts, {}, {}][:3]
    return settings, helps, choices


def _yaml(text: str) -> list[Any]:
    try:
        import yaml
    except ImportError:
        raise ValueError("YAML needs PyYAML in the training's environment: install it, or use JSON") from None
    try:
        return list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _as_config(settings: Mapping[str, Any]) -> Config:
    return Config(
        **{
            str(name): _as_config(value) if isinstance(value, dict) else value
            for name, value in settings.items()
        }
    )


def _leaves(config: SimpleNamespace, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yields each setting with its name, such as `optimizer.lr`."""
    for name, value in vars(config).items():
        if isinstance(value, SimpleNamespace):
            yield from _leaves(value, before + name + ".")
        else:
            yield before + name, value


def _set(config: SimpleNamespace, name: str, value: Any) -> None:
    *way, last = name.split(".")
    for step in way:
        config = getattr(config, step)
    setattr(config, last, value)


def _plain(text: str) -> str:
    """Escapes `%` for argparse."""
    return text.replace("%", "%%")
