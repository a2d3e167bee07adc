"""Options of the section `cache` of a mapping, and all that this package reads in one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ma_boot.node.checkpoints.options import OPTIONS
from path_mapping.mapping.document import ScalarValue, Value
from path_mapping.mapping.routes import (
    PathMapping,
    Route,
    local_relation,
    remote_relation,
)


class CacheOptions(NamedTuple):
    """Options of a compile cache.

    `keep` is the number of published caches that stay for each code and software. A cache with more than
    `max_files` files or `max_bytes` bytes is neither published nor restored. `interval` is the time in
    seconds for which no file must change before the cache is published while the training runs.
    """

    keep: int = 2
    max_files: int = 20_000
    max_bytes: int = 4 << 30
    interval: int = 30


def cache_options_of(route: Route) -> CacheOptions:
    """Returns the options of a cache."""
    return route.more if isinstance(route.more, CacheOptions) else CacheOptions()


def _read(values: Mapping[str, Value], where: tuple[str, ...], problems: list[str]) -> CacheOptions:
    read: dict[str, Any] = {}
    for name in CacheOptions._fields:
        value = values.get(name)
        if value is None:
            continue
        number = value.value if isinstance(value, ScalarValue) else None
        if type(number) is int and number >= 1:
            read[name] = number
        else:
            problems.append(f"{value.place(*where, name)}found {value.shown}, expected a number, at least 1")
    url = values["obs"]
    if isinstance(url, ScalarValue) and isinstance(url.value, str):
        problems += [
            f"{url.place(*where)}found {name} in the URL of a cache, expected the same URL on all nodes"
            for name in ("{node}", "{rank}")
            if name in url.value.replace("{{", "")
        ]
    return CacheOptions(**read)


def _check(mapping: PathMapping) -> list[str]:
    """Returns a message for each further cache, and for each overlap of a cache with other routes.

    A cache is executed: no input may put files into it, and no output may publish below its URL.
    """
    problems = [
        f"cache: found {route.local!r}, expected one cache: its directory is for all compilers"
        for route in mapping.caches[1:]
    ]
    for cache in mapping.caches[:1]:
        for other in (*mapping.inputs, *mapping.outputs):
            how = local_relation(cache, other)
            if how:
                problems.append(f"cache: {cache.local!r} {how} {other.local!r}: use separate paths")
            how = remote_relation(cache, other)
            if how:
                problems.append(f"cache: {cache.remote} {how} {other.remote}: use separate URLs")
    return problems


EXTENSION = OPTIONS._replace(
    cache_names=CacheOptions._fields,
    read_cache=_read,
    check=lambda mapping: [*OPTIONS.check(mapping), *_check(mapping)],
)


def write_cache_options(options: CacheOptions) -> dict[str, object]:
    """Returns the options as in a mapping."""
    return dict(options._asdict())
