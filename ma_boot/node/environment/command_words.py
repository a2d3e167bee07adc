"""What a training command says of itself: its script, and the launcher that starts the ranks. Pure.

This is a rule about words, not about the options of each program. The script is the first word that ends in
`.py` or `.sh` behind an interpreter or a launcher (or the first word of all), the word that directly follows
an interpreter, or the module after `-m`. Its limits: the value of an option that ends in `.py` or `.sh` is
taken for the script, unless it is written behind `=`; a script without such an ending is not found behind a
launcher or behind options of an interpreter, and none that another program runs (`nohup ./run.sh`; `nohup
bash run.sh` is). A command without a script is started as it is written: only `--workdir code` and the search
in `$MA_JOB_DIR` need it.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ma_boot.node.environment.patch import put_first

SCRIPTS = (".py", ".sh")
_INTERPRETERS = {"python", "pypy", "bash", "sh", "dash", "ksh", "zsh"}
_RUN_A_SCRIPT = {"cProfile", "profile", "pdb"}  # modules
# Programs and modules that start the ranks of a node; one of the options has to say how many.
_LAUNCHERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("torchrun", "torch.distributed.run", "torch.distributed.launch"), ()
    ),  # by PET_* as well
    **dict.fromkeys(("mpirun", "mpiexec", "orterun", "prterun"), ()),
    **dict.fromkeys(("msrun", "mindspore.parallel.cluster.run"), ("--worker-num",)),
    **dict.fromkeys(
        ("accelerate launch", "accelerate-launch", "accelerate.commands.launch"),
        ("--num-processes", "--config-file"),
    ),
    **dict.fromkeys(("deepspeed", "deepspeed.launcher.runner"), ("--num-nodes", "--hostfile", "-H")),
}
_VERSION = r"(python|pypy|mpirun|mpiexec)[\d.].*"  # python3.11, mpirun.openmpi
_NO_SCRIPT = r"-(?:[A-Za-z]*c)?"  # of an interpreter: the program is the next word, or standard input
_MODULE = r"-[A-Za-z]*m|--module"


class Script(NamedTuple):
    """The word of a command that names its script: a file, or a module by its dotted name."""

    place: int
    name: str
    is_module: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """The relative paths of the file, the first existing one counts."""
        if not self.is_module:
            return (self.name,)
        path = self.name.replace(".", os.sep)
        return path + ".py", os.path.join(path, "__main__.py")

    @property
    def is_certain(self) -> bool:
        """Whether the command cannot run without a file of this very name.

        A module may be an installed one, and `$MA_JOB_DIR` in a name is only known on the node.
        """
        return not self.is_module and self.name.endswith(SCRIPTS) and "$" not in self.name


class TrainingCommand(NamedTuple):
    """A training command: its words, its script and its launcher; None for a command that names none.

    `counts` are the launcher's options that say how many ranks, if the command has none of them and the
    launcher takes it from nowhere else: it may start fewer ranks than the job has. Once the script was found
    (`find_command`), `code` is its directory, for a module the one from which it is imported.
    """

    words: tuple[str, ...]
    script: Script | None = None
    launcher: str | None = None
    counts: tuple[str, ...] = ()
    code: str | None = None

    def with_script(self, name: str) -> TrainingCommand:
        """The command with another path of its script."""
        assert self.script is not None
        place = self.script.place
        words = (*self.words[:place], name, *self.words[place + 1 :])
        return self._replace(words=words, script=self.script._replace(name=name))

    def run_by(self, program: str) -> TrainingCommand:
        """The command behind the path of the program that runs it."""
        script = self.script._replace(place=self.script.place + 1) if self.script else None
        return self._replace(words=(program, *self.words), script=script)

    def environment(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """The environment in which the command finds its module."""
        if self.code is None or self.script is None or not self.script.is_module:
            return environ
        return {**environ, "PYTHONPATH": put_first(self.code, environ.get("PYTHONPATH", ""))}


def read_command(words: Sequence[str]) -> TrainingCommand:
    """The command of these words, with its script and its launcher.

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
        elif word[:1] in ("-", "+") or re.match(r"\w+=", word):  # env NAME=value
            continue
        elif (interpreter_at == place - 1 and (place or os.sep in word)) or (
            word.endswith(SCRIPTS) and (program or not place)
        ):
            return Script(place, word), launcher
    return None, launcher


def _name(words: Sequence[str], place: int) -> str:
    name = os.path.basename(words[place])
    if name == "accelerate":
        return " ".join(("accelerate", *words[place + 1 : place + 2]))
    version = re.fullmatch(_VERSION, name)
    return version.group(1) if version else name
