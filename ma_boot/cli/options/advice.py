"""Advice for slips of the keyboard: variables that no option has, and options in the wrong place."""

from __future__ import annotations

from typing import Collection, Iterable, List, Mapping, Sequence

_PREFIX = "MABOOT_"
_NO_OPTIONS = {  # what ma_boot sets for processes and for itself
    *("MABOOT_FAILURE_FILE", "MABOOT_RUN", "MABOOT_NNODES", "MABOOT_NODE_RANK", "MABOOT_NPROC"),
    *("MABOOT_WORLD_SIZE", "MABOOT_JOB_TOKEN", "MABOOT_MASTER_ADDR", "MABOOT_MASTER_PORT"),
}
_OWN_WORDS = {"--local", "--nodes"}  # other options of one word may well be the training's


def unknown_variables(environ: Mapping[str, str], known: Collection[str]) -> List[str]:
    """A line for each variable `MABOOT_...` that no option has; `known` are those of the options."""
    unknown = [name for name in sorted(environ) if name.startswith(_PREFIX)]
    names = [name[len(_PREFIX) :] for name in known if name]
    return [
        f"{name}: no option of ma_boot has this variable, it is ignored"
        f"{did_you_mean(name[len(_PREFIX) :], names, _PREFIX)}"
        for name in unknown
        if name not in known and name not in _NO_OPTIONS
    ]


def misplaced_options(command: Sequence[str], script: int, known: Iterable[str]) -> List[str]:
    """A line if options of ma_boot come after the script, where they belong to the training.

    `script` is the index of its word, `known` are all options.
    """
    own = {option for option in known if "-" in option[2:]} | _OWN_WORDS
    found = [word.partition("=")[0] for word in command[script + 1 :]]
    names = list(dict.fromkeys(name for name in found if name in own))
    if not names:
        return []
    given, after = ", ".join(names), command[script]
    if len(names) == 1:
        told = f"{given} comes after {after}, and so is passed to the training"
    else:
        told = f"{given} come after {after}, and so are passed to the training"
    return [f"{told}; options of ma_boot go before COMMAND"]


def did_you_mean(name: str, names: Collection[str], before: str = "") -> str:
    """The question whether a similar one of these names was meant; empty if none is similar."""
    import difflib  # only for a mistake

    near = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.75)
    return f"; did you mean {before}{near[0]}?" if near else ""
