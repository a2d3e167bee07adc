"""The options of an output that has checkpoints: `checkpoint`, `keep` and `restore`. Pure."""

from __future__ import annotations

from typing import List, Mapping, Optional, Tuple

from path_mapping.layouts import AUTO, LAYOUTS, layout_of
from path_mapping.mapping.document import ListValue, ScalarValue, Value

LATEST = "latest"


def checkpoint(value: Value, where: str, problems: List[str]) -> Tuple[str, ...]:
    """`auto`, the name of a layout, a pattern, or a list of patterns."""
    items = value.items if isinstance(value, ListValue) else (value,)
    texts = [item.value for item in items if isinstance(item, ScalarValue) and isinstance(item.value, str)]
    names = ", ".join([AUTO, *sorted(LAYOUTS)])
    if len(texts) != len(items) or not texts:
        problems.append(
            f"{where}found {value.shown}, expected one of {names}, or a pattern such as 'iter_{{step}}'"
        )
        return ()
    if len(texts) == 1 and (texts[0] == AUTO or texts[0] in LAYOUTS):
        return tuple(texts)
    for text in texts:
        if "{" not in text:
            problems.append(
                f"{where}found {text!r}, expected one of {names}, or a pattern such as 'iter_{{step}}'"
            )
            continue
        try:
            layout_of([text], ())
        except ValueError as error:
            problems.append(f"{where}found {error}")
    return tuple(texts)


def keep(value: Value, where: str, problems: List[str]) -> Optional[int]:
    """How many whole sets stay."""
    found = value.value if isinstance(value, ScalarValue) else None
    if isinstance(found, int) and not isinstance(found, bool) and found >= 1:
        return found
    problems.append(f"{where}found {value.shown}, expected a number of sets, at least 1")
    return None


def restore(value: Value, where: str, problems: List[str]) -> Optional[str]:
    """Which set the training goes on from."""
    if isinstance(value, ScalarValue) and value.value == LATEST:
        return LATEST
    problems.append(f"{where}found {value.shown}, expected {LATEST!r}")
    return None


def refused_together(found: Mapping[str, Value], where: Tuple[str, ...]) -> List[str]:
    """A message for each option of an output that does not go with the others."""
    problems = []
    if "checkpoint" not in found:
        problems += [
            f"{found[name].place(*where)}{name!r} needs 'checkpoint', for example 'checkpoint': 'auto'"
            for name in ("keep", "restore")
            if name in found
        ]
        return problems
    if isinstance(found.get("delete"), ScalarValue) and getattr(found["delete"], "value", None) is True:
        problems.append(
            found["delete"].place(*where)
            + "'delete' does not go with 'checkpoint': 'keep' says how many sets stay"
        )
    url = found.get("obs")
    text = url.value if isinstance(url, ScalarValue) else None
    if url is not None and isinstance(text, str):
        problems += [
            f"{url.place(*where)}found {name} in the URL of checkpoints, expected the same URL on all nodes"
            for name in ("{node}", "{rank}")
            if name in text.replace("{{", "")
        ]
    return problems
