"""Advice for slips on the command line: unknown words, variables and options in the wrong place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence

from ma_boot.node.option import PREFIX

# Variables that ma_boot sets for its processes or reads for itself.
_NO_OPTIONS = {
    *("MABOOT_FAILURE_FILE", "MABOOT_RUN", "MABOOT_NNODES", "MABOOT_NODE_RANK", "MABOOT_NPROC"),
    *("MABOOT_WORLD_SIZE", "MABOOT_JOB_TOKEN", "MABOOT_MASTER_ADDR", "MABOOT_MASTER_PORT"),
    "MABOOT_SUBMISSION",
}
# Options of one word that no training is likely to have; others of one word may be the training's own.
_OWN_WORDS = {"--local", "--nodes"}
_SHELL_BUILTINS = {"cd", "source", ".", "export", "set", "ulimit", "eval", "exec"}


def did_you_mean(name: str, names: Collection[str], before: str = "") -> str:
    """Returns a question that proposes the most similar of these names; empty if none is similar."""
    import difflib  # only for a mistake

    # One wrong letter in a short name lowers the ratio more than in a long one.
    cutoff = 0.75 if len(name) > 4 else 0.66
    near = difflib.get_close_matches(name, sorted(names), n=1, cutoff=cutoff)
    return f"; did you mean {before}{near[0]}?" if near else ""


def find_unknown_variables(environ: Mapping[str, str], known: Collection[str]) -> list[str]:
    """Returns a line for each variable `MABOOT_...` that is not among `known`, those of the options."""
    names = [name[len(PREFIX) :] for name in known if name]
    return [
        f"{name}: no option of ma_boot has this variable, it is ignored"
        f"{did_you_mean(name[len(PREFIX) :], names, PREFIX)}"
        for name in sorted(environ)
        if name.startswith(PREFIX) and name not in known and name not in _NO_OPTIONS
    ]


def find_misplaced_options(command: Sequence[str], script: int, known: Iterable[str]) -> list[str]:
    """Returns a line if options of ma_boot come after the script, where they belong to the training.

    `script` is the index of its word, `known` are all options of ma_boot.
    """
    own = {option for option in known if "-" in option[2:]} | _OWN_WORDS
    words = [word.partition("=")[0] for word in command[script + 1 :]]
    names = list(dict.fromkeys(name for name in words if name in own))
    if not names:
        return []
    given, after = ", ".join(names), command[script]
    if len(names) == 1:
        note = f"{given} comes after {after}, and so is passed to the training"
    else:
        note = f"{given} come after {after}, and so are passed to the training"
    return [f"{note}; options of ma_boot go before COMMAND"]


def explain_unknown_program(
    word: str, subcommands: Iterable[str], *, options: Collection[str], path: str, has_own_environment: bool
) -> str | None:
    """Returns the message for a first word of COMMAND that is no program: what may have been meant.

    None where the word may be a program that only the training's environment has. `subcommands` are the words
    of each command after `ma_boot`, such as `job submit`, `options` those of `run`. `path` is the value of
    PATH; `has_own_environment` is true if an option selects the training's environment.
    """
    if not word.strip():
        return "COMMAND is empty"
    first = word.split()[0]
    known = first == "python" or shutil.which(first, path=path)
    if first != word and known and not os.path.exists(word):
        return f"{word}: no such program; write the command as words, without quotes around all of it"
    if word in _SHELL_BUILTINS:
        return f"{word} is a command of the shell, and ma_boot runs none: put the commands into a .sh file"
    is_file_name = word.endswith((".py", ".sh")) or os.sep in word or word.startswith("-")
    # `python` is the training's, also where only python3 is on PATH.
    if is_file_name or word == "python" or has_own_environment or shutil.which(word, path=path):
        return None
    for script in (word, f"{word}.py", f"{word}.sh"):
        if os.path.isfile(script):
            here = script if script != word else os.path.join(os.curdir, word)
            return f"{word}: no such program on PATH; did you mean {here}?"
    commands = list(subcommands)
    meant = [option for option in options if option == f"--{word}"]
    meant += [name for name in commands if name.endswith(f" {word}")]
    if meant:
        lines = " or ".join(f"ma_boot {words}" for words in meant)
        return f"{word}: no such command of ma_boot; did you mean {lines}?"
    question = did_you_mean(word, [name for name in commands if " " not in name], "ma_boot ")
    return f"{word}: no such command of ma_boot, and no such program on PATH{question}" if question else None
