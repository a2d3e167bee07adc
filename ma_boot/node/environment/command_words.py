"""Words of a training command: its script, and the launcher that starts the ranks. Pure.

The rule is about words, not about the options of each program. The script is the first word that ends in
`.py` or `.sh` after an interpreter or a launcher (or the first word of all), the word that directly follows
an interpreter, or the module after `-m`. Its limits: the value of an option that ends in `.py` or `.sh` is
taken for the script, unless it is written after `=`. A script without such an ending is not found after a
launcher, or after options of an interpreter; nor is one that another program runs (`nohup ./run.sh`; `nohup
bash run.sh` is found). A command without a script is started as it is written: only `--workdir code` and the
search in `$MA_JOB_DIR` need the script.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ma_boot.node.environment.patch import put_first

SCRIPTS = (".py", ".sh")
_SHELLS = {"bash", "sh", "dash", "ksh", "zsh"}
_INTERPRETERS = {"python", "pypy", *_SHELLS}
# The command that makes a node part of a Ray cluster.
RAY = "ray start"
# Modules of Python that run a script.
_RUN_A_SCRIPT = {"cProfile", "profile", "pdb"}
# Programs and modules that start the ranks of a node; one of the options has the number of ranks. Those of
# torchrun may also come from PET_*, those of mpirun from its own defaults. Ray's workers are no ranks, but
# Ray, too, is started once per node.
_LAUNCHERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("torchrun", "torch.distributed.run", "torch.distributed.launch"), ()),
    **dict.fromkeys(("mpirun", "mpiexec", "orterun", "prterun"), ()),
    **dict.fromkeys(("msrun", "mindspore.parallel.cluster.run"), ("--worker-num",)),
    **dict.fromkeys(
        ("accelerate launch", "accelerate-launch", "accelerate.commands.launch"),
        ("--num-processes", "--config-file"),
    ),
    **dict.fromkeys(("deepspeed", "deepspeed.launcher.runner"), ("--num-nodes", "--hostfile", "-H")),
    RAY: (),
}
# Programs of which a subcommand starts the ranks.
_WITH_SUBCOMMAND = ("accelerate", "ray")
# Names with a version or a variant, such as python3.11 and mpirun.openmpi.
_VERSION = r"(python|pypy|mpirun|mpiexec)[\d.].*"
# Option of an interpreter after which the program is the next word (-c), or standard input (-).
_NO_SCRIPT = r"-(?:[A-Za-z]*c)?"
_MODULE = r"-[A-Za-z]*m|--module"


class Script(NamedTuple):
    """Word of a command that names its script: a file, or a module by its dotted name."""

    place: int
    name: str
    is_module: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """The possible relative paths of the file, in the order of precedence."""
        if not self.is_module:
            return (self.name,)
        path = self.name.replace(".", os.sep)
        return path + ".py", os.path.join(path, "__main__.py")

    @property
    def is_certain(self) -> bool:
        """Tells if the command cannot run without a file of this name.

        A module may be an installed one, and `$MA_JOB_DIR` in a name is only known on the node.
        """
        return not self.is_module and self.name.endswith(SCRIPTS) and "$" not in self.name


class TrainingCommand(NamedTuple):
    """Training command: its words, its script and its launcher; None for a command without them.

    `counts` are the launcher's options for the number of ranks, if the command has none of them and the
    launcher has no other source: it may start fewer ranks than the job has. Once the script was found
    (`find_command`), `code` is its directory, for a module the one from which it is imported. `starts_ray`:
    the command or the code of its shell runs `ray start`.
    """

    words: tuple[str, ...]
    script: Script | None = None
    launcher: str | None = None
    counts: tuple[str, ...] = ()
    code: str | None = None
    starts_ray: bool = False

    @property
    def is_shell_script(self) -> bool:
        """True if a shell runs the command: it may put processes into the background."""
        by_shell = os.path.basename(self.words[0]) in _SHELLS
        return by_shell or (self.script is not None and self.script.name.endswith(".sh"))

    def with_script(self, name: str) -> TrainingCommand:
        """Returns the command with another path of its script."""
        assert self.script is not None
        place = self.script.place
        words = (*self.words[:place], name, *self.words[place + 1 :])
        return self._replace(words=words, script=self.script._replace(name=name))

    def run_by(self, program: str) -> TrainingCommand:
        """Returns the command after the path of the program that runs it."""
        script = self.script._replace(place=self.script.place + 1) if self.script else None
        return self._replace(words=(program, *self.words), script=script)

    def environment(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Returns the environment in which the command finds its module."""
        if self.code is None or self.script is None or not self.script.is_module:
            return environ
        return {**environ, "PYTHONPATH": put_first(self.code, environ.get("PYTHONPATH", ""))}


def read_command(words: Sequence[str]) -> TrainingCommand:
    """Finds the script and the launcher in the words of a command.

    A command that begins with `-m` runs a module by the selected python, as `ma_boot -m MODULE` does.
    """
    script, launcher = _script_and_launcher(words)
    counts = _LAUNCHERS.get(launcher, ())
    before = words[: script.place] if script else words
    options = {word.replace("_", "-").partition("=")[0] for word in before}
    shown = f"python -m {launcher}" if "." in launcher else launcher
    return TrainingCommand(
        tuple(words), script, shown or None, () if options.intersection(counts) else counts
    )


def _script_and_launcher(words: Sequence[str]) -> tuple[Script | None, str]:
    launcher, program, interpreter_at = "", "python" if words[:1] and words[0] == "-m" else "", -1
    for place, word in enumerate(words):
        name = _name(words, place)
        is_module = bool(program and place and re.fullmatch(_MODULE, words[place - 1]))
        if name in _LAUNCHERS:
            launcher, program = launcher or name, name
        elif name in _INTERPRETERS:
            program, interpreter_at = name, place
        elif is_module and name in _RUN_A_SCRIPT:
            program = name
        elif is_module:
            return Script(place, word, is_module=True), launcher
        elif program in _INTERPRETERS and re.fullmatch(_NO_SCRIPT, word):
            break
        elif word[:1] in ("-", "+") or re.match(r"\w+=", word):
            # An option, or a variable as in `env NAME=value`.
            continue
        elif (interpreter_at == place - 1 and (place or os.sep in word)) or (
            word.endswith(SCRIPTS) and (program or not place)
        ):
            return Script(place, word), launcher
    return None, launcher


def _name(words: Sequence[str], place: int) -> str:
    name = os.path.basename(words[place])
    if name in _WITH_SUBCOMMAND:
        return " ".join((name, *words[place + 1 : place + 2]))
    version = re.fullmatch(_VERSION, name)
    return version.group(1) if version else name


def find_shell_code(words: Sequence[str]) -> int | None:
    """Returns the place of the code in a command such as `bash -c CODE`; None if a shell gets no code."""
    shell = next((at for at, _ in enumerate(words) if _name(words, at) in _SHELLS), None)
    if shell is None:
        return None
    gets_code, is_value = False, False
    for place in range(shell + 1, len(words)):
        word = words[place]
        if is_value:
            is_value = False
        elif word[:1] not in ("-", "+"):
            return place if gets_code else None
        elif not word.startswith("--"):
            gets_code = gets_code or (word[0] == "-" and "c" in word)
            # The value of -o is the next word, also in `bash -eo pipefail -c CODE`.
            is_value = word.endswith("o")
    return None
