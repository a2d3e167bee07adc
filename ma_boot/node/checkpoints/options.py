"""Options of an output with checkpoints: `checkpoint`, `savers`, `keep` and `restore`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, Callable, NamedTuple, Union

from ma_boot.node.checkpoints.layouts.recognition import AUTO, LAYOUTS, layout_by_name
from path_mapping.mapping.document import ListValue, ScalarValue, Value
from path_mapping.mapping.routes import MappingExtension, PathMapping, Route, local_relation, remote_relation

LATEST, ALL, FIRST, EXPLICIT = "latest", "all", "first", "explicit"
Savers = Union[str, tuple[int, ...]]


class CheckpointOptions(NamedTuple):
    """Checkpoint options of an output.

    `layout` is `("auto",)`, the name of a layout, or patterns; `is_explicit`: a step is complete only when
    the training calls `checkpoint(step)`. `savers` are all nodes, the first, or these; None: as in the
    layout. `keep` is the number of complete checkpoints that stay in OBS, None for all; `restore`: the
    training resumes from the newest one.
    """

    layout: tuple[str, ...]
    is_explicit: bool = False
    savers: Savers | None = None
    keep: int | None = None
    restore: bool = False


def options_of(route: Route) -> CheckpointOptions | None:
    """Returns the options of an output with checkpoints; None for any other."""
    return route.more if isinstance(route.more, CheckpointOptions) else None


def _read(
    values: Mapping[str, Value], where: tuple[str, ...], problems: list[str]
) -> CheckpointOptions | None:
    given = {name: values[name] for name in OPTIONS.names if name in values}
    if "checkpoint" not in given:
        problems += [
            f"{value.place(*where)}{name!r} needs 'checkpoint', for example 'checkpoint': 'auto'"
            for name, value in given.items()
        ]
        return None
    problems += _refused_together(values, where)
    checkpoint = given.pop("checkpoint")
    layout = _layout(checkpoint, checkpoint.place(*where, "checkpoint"), problems)
    names = tuple(name for name in layout if name != EXPLICIT) or (AUTO,)
    read: dict[str, Any] = {}
    for name, value in given.items():
        reader, expected = _READERS[name]
        read[name] = reader(value)
        if read[name] is None:
            problems.append(f"{value.place(*where, name)}found {value.shown}, expected {expected}")
    return CheckpointOptions(names, EXPLICIT in layout, **read)


def _layout(value: Value, where: str, problems: list[str]) -> tuple[str, ...]:
    """Reads `auto`, a layout's name, a pattern, or several, with or without `explicit`; or `explicit`."""
    items = value.items if isinstance(value, ListValue) else (value,)
    texts = [item.value for item in items if isinstance(item, ScalarValue) and isinstance(item.value, str)]
    expected = f"one of {', '.join([AUTO, EXPLICIT, *sorted(LAYOUTS)])}, or a pattern such as 'iter_{{step}}'"
    if len(texts) != len(items) or not texts:
        problems.append(f"{where}found {value.shown}, expected {expected}")
        return ()
    names = [text for text in texts if text != EXPLICIT]
    if len(names) == 1 and (names[0] == AUTO or names[0] in LAYOUTS):
        return tuple(texts)
    for text in names:
        if "{" not in text:
            problems.append(f"{where}found {text!r}, expected {expected}")
            continue
        try:
            layout_by_name([text])
        except ValueError as error:
            problems.append(f"{where}found {error}")
    return tuple(texts)


def _savers(value: Value) -> Savers | None:
    if isinstance(value, ScalarValue) and value.value in (ALL, FIRST):
        return str(value.value)
    items = value.items if isinstance(value, ListValue) else ()
    numbers = [item.value for item in items if isinstance(item, ScalarValue)]
    nodes = sorted({number for number in numbers if type(number) is int and number >= 0})
    return tuple(nodes) if nodes and len(nodes) == len(items) else None


def _keep(value: Value) -> int | None:
    number = value.value if isinstance(value, ScalarValue) else None
    return number if type(number) is int and number >= 1 else None


def _restore(value: Value) -> bool | None:
    return True if isinstance(value, ScalarValue) and value.value == LATEST else None


# Reader of each option, which returns None for a wrong value, and the expected values.
_READERS: Mapping[str, tuple[Callable[[Value], object], str]] = {
    "savers": (_savers, "'all', 'first', or a list of nodes such as [0, 2]"),
    "keep": (_keep, "a number of checkpoints, at least 1"),
    "restore": (_restore, repr(LATEST)),
}


def _refused_together(values: Mapping[str, Value], where: tuple[str, ...]) -> list[str]:
    """Returns a message for each option of an output that conflicts with `checkpoint`."""
    problems = []
    delete, url = values.get("delete"), values.get("obs")
    if isinstance(delete, ScalarValue) and delete.value is True:
        problems.append(
            f"{delete.place(*where)}'delete' does not go with 'checkpoint': 'keep' is the number of "
            "checkpoints that stay"
        )
    if isinstance(url, ScalarValue) and isinstance(url.value, str):
        problems += [
            f"{url.place(*where)}found {name} in the URL of checkpoints, expected the same URL on all nodes"
            for name in ("{node}", "{rank}")
            if name in url.value.replace("{{", "")
        ]
    return problems


def _check(mapping: PathMapping) -> list[str]:
    """Returns a message for each input that overlaps with an output of checkpoints, in OBS or on the disk.

    A published checkpoint is not a tree of files, and a restored one replaces the directory's contents.
    """
    problems = []
    for output, given in product(mapping.outputs, mapping.inputs):
        if output.more is None:
            continue
        if remote_relation(given, output):
            problems.append(
                f"input: {given.remote}: {output.remote} has checkpoints, which cannot be an input: "
                f"'restore': 'latest' of the output {output.local!r} downloads them"
            )
        how = local_relation(given, output)
        if how:
            problems.append(
                f"input: {given.local!r} {how} the directory of checkpoints {output.local!r}: use separate "
                "paths"
            )
    return problems


OPTIONS = MappingExtension(("checkpoint", "savers", "keep", "restore"), _read, _check)


def write_options(options: CheckpointOptions) -> dict[str, object]:
    """Returns the options as in a mapping."""
    layout = [EXPLICIT, *options.layout] if options.is_explicit else list(options.layout)
    savers = list(options.savers) if isinstance(options.savers, tuple) else options.savers
    more = {"savers": savers, "keep": options.keep, "restore": LATEST if options.restore else None}
    return {"checkpoint": layout, **{name: value for name, value in more.items() if value is not None}}
