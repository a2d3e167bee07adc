"""Which word of a training command names its script, through interpreters and launchers. Pure.

Each program is a row of options as its `--help` lists them (Python 3.13, bash 5.2, PyTorch 2.9, Accelerate
1.15, DeepSpeed 0.18, MindSpore 2.10, Open MPI 4 and 5, MPICH 4, GNU coreutils 9). A command with an option
that no row knows is still started as it is written: only its script may not be found.
"""

from __future__ import annotations

import os.path
import re
from typing import Dict, FrozenSet, Mapping, NamedTuple, Optional, Sequence, Tuple

SCRIPTS = (".py", ".sh")
_VERSION = r"(python|pypy)[\d.]*$|(mpirun|mpiexec)\..+$"  # python3.11, mpirun.openmpi
_ASSIGNMENT = r"[A-Za-z_]\w*="


class Script(NamedTuple):
    """The word of a command that names its script: a file, or a module by its dotted name."""

    place: int
    name: str
    is_module: bool = False

    @property
    def files(self) -> Tuple[str, ...]:
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


class CommandParts(NamedTuple):
    """What a command says of itself: its script, and the launcher that starts the ranks of a node.

    `counts` are the launcher's options that say how many ranks, where the command has none of them and the
    launcher takes it from nowhere else: it may start fewer ranks than the job has.
    """

    script: Optional[Script]
    launcher: Optional[str] = None
    counts: Tuple[str, ...] = ()


class Program(NamedTuple):
    """How the words of a program are read up to what it runs: a `script` or another `command`.

    `values` are the options that take values, as the next words, and how many; without it every option takes
    one but the `flags`. `letters` take the rest of their word, else the next word (`-Wignore`, `-W ignore`);
    after one of `ends` no script follows. `module` says whether the name of a module is the value of `-m`
    (`value`), or the first word that is no option (`flag`). After one of `bare`, a program takes any command.
    `skipped` words come first; `starts_ranks`: it starts the ranks of a node; by one of the options `counts`
    it knows how many.
    """

    runs: str = "script"
    values: Optional[Mapping[str, int]] = None
    flags: FrozenSet[str] = frozenset()
    letters: str = ""
    ends: str = ""
    module: str = ""
    bare: FrozenSet[str] = frozenset()
    skipped: int = 0
    subcommand: str = ""
    starts_ranks: bool = False
    counts: Tuple[str, ...] = ()


def _each(words: str, count: int = 1) -> Dict[str, int]:
    return dict.fromkeys(words.split(), count)


def _set(words: str) -> FrozenSet[str]:
    return frozenset(words.split())


_PYTHON = Program(values=_each("--check-hash-based-pycs"), letters="WXQ", ends="cVh?", module="value")
_SHELL = Program(values=_each("-o -O +o +O --rcfile --init-file"), letters="oO", ends="cs")
_TORCH = Program(
    flags=_set("--standalone --run-path --use-env -h --help -m --module --no-python"),
    module="flag",
    bare=_set("--no-python"),
    starts_ranks=True,
)
_ACCELERATE = Program(
    flags=_set(
        "-q --quiet --cpu --multi-gpu --tpu --enable-cpu-affinity --dynamo-use-fullgraph "
        "--dynamo-use-dynamic --dynamo-use-regional-compilation --use-deepspeed --use-fsdp "
        "--use-parallelism-config --use-megatron-lm --use-xpu --ipex --same-network --no-python "
        "--tpu-cluster --no-tpu-cluster --tpu-use-sudo --downcast-bf16 --fp8-use-autocast-during-eval "
        "--debug -h --help -m --module"
    ),
    module="flag",
    bare=_set("--no-python"),
    starts_ranks=True,
    counts=("--num-processes", "--config-file"),
)
_DEEPSPEED = Program(
    flags=_set(
        "--module --no-python --no-local-rank --no-ssh --no-ssh-check --force-multi --save-pid "
        "--elastic-training --bind-cores-to-rank -h --help"
    ),
    module="flag",
    bare=_set("--no-python"),
    starts_ranks=True,
    counts=("--num-nodes", "--hostfile", "-H"),
)
_MSRUN = Program(flags=_set("-h --help"), starts_ranks=True, counts=("--worker-num",))
_MPIRUN = Program(
    runs="command",
    values={
        **_each(
            "-n -np --n --np -c -N --npernode -npernode --npersocket -npersocket -H -host --host "
            "-hosts --hosts -hostfile --hostfile -machinefile --machinefile -default-hostfile "
            "--default-hostfile -f -ppn --ppn -x -wd -wdir --wd --wdir -path --path -prefix --prefix "
            "-bind-to --bind-to -map-by --map-by -rank-by --rank-by -output-filename "
            "--output-filename --output -xml-file --xml-file -stdin --stdin -timeout --timeout -am "
            "--am -tune --tune -app --app -rf --rankfile -rankfile -cpu-set --cpu-set -cpu-list "
            "--cpu-list -slot-list --slot-list -report-events --report-events -server-wait-time "
            "-personality --personality -dvm --dvm -max-restarts --max-restarts -max-vm-size "
            "--max-vm-size -report-state-on-timeout -ompi-server --ompi-server -report-pid "
            "--report-pid -report-uri --report-uri -genvlist -envlist -launcher -iface -configfile "
            "-membind -hostos -rmk -bootstrap --pmixmca-file --runtime-options --display --debug "
            "--with-ft -with-ft"
        ),
        **_each("-mca --mca -gmca --gmca -omca --omca -prtemca --prtemca --prtmca --pmixmca -genv -env", 2),
    },
    starts_ranks=True,
)
_PROFILER = Program(values=_each("-o -s --outfile --sort"), module="value")
_DEBUGGER = Program(values=_each("-c --command"), module="value")
_MODULES: Mapping[str, Program] = {
    "torch.distributed.run": _TORCH,
    "torch.distributed.launch": _TORCH,
    "accelerate.commands.launch": _ACCELERATE,
    "deepspeed.launcher.runner": _DEEPSPEED,
    "mindspore.parallel.cluster.run": _MSRUN,
    "cProfile": _PROFILER,
    "profile": _PROFILER,
    "pdb": _DEBUGGER,
}
PROGRAMS: Mapping[str, Program] = {
    **dict.fromkeys(("python", "pypy"), _PYTHON),
    **dict.fromkeys(("bash", "sh", "dash", "ksh", "zsh"), _SHELL),
    "torchrun": _TORCH,
    "accelerate": _ACCELERATE._replace(subcommand="launch"),
    "accelerate-launch": _ACCELERATE,
    "deepspeed": _DEEPSPEED,
    "msrun": _MSRUN,
    **dict.fromkeys(("mpirun", "mpiexec", "orterun", "prterun"), _MPIRUN),
    "env": Program("command", _each("--unset --chdir --argv0"), letters="uCa", ends="S"),
    "nice": Program("command", _each("--adjustment"), letters="n"),
    "nohup": Program("command", {}),
    "setsid": Program("command", {}),
    "stdbuf": Program("command", _each("--input --output --error"), letters="ioe"),
    "taskset": Program("command", {}, skipped=1),
    "time": Program("command", _each("--format --output"), letters="fo"),
    "timeout": Program("command", _each("--kill-after --signal"), letters="ks", skipped=1),
    "numactl": Program(
        "command",
        _each(
            "--interleave --weighted-interleave --preferred --preferred-many --physcpubind "
            "--cpunodebind --membind"
        ),
        letters="iwpPCNm",
    ),
}


def command_parts(command: Sequence[str]) -> CommandParts:
    """The script and the launcher of a command; the script is None if the command names none.

    A command that begins with `-m` runs a module by the selected python, as `ma_boot -m MODULE` does.
    """
    words = tuple(command)
    if words[:1] == ("-m",):
        return _of_program("python", _PYTHON, words, 0, None)
    return _of_command(words, 0, None)


class _Launcher(NamedTuple):
    """What starts the ranks, and by which options it could know how many, if it is given none of them."""

    name: str
    counts: Tuple[str, ...]


def _parts(script: Optional[Script], launcher: Optional[_Launcher]) -> CommandParts:
    return CommandParts(script, *(launcher or ()))


def _of_command(words: Sequence[str], start: int, launcher: Optional[_Launcher]) -> CommandParts:
    """The parts of the command that begins at `start`; `launcher` is the one before it."""
    if start >= len(words):
        return _parts(None, launcher)
    name = _name(words[start])
    program = PROGRAMS.get(name)
    if program is not None:
        return _of_program(name, program, words, start + 1, launcher)
    names_file = words[start].endswith(SCRIPTS) or os.sep in words[start]
    return _parts(Script(start, words[start]) if names_file else None, launcher)


def _of_program(
    name: str, program: Program, words: Sequence[str], start: int, launcher: Optional[_Launcher]
) -> CommandParts:
    """The parts of what a program runs, by its arguments, which begin at `start`."""
    found, is_command = _operand(program, words, start)
    if program.starts_ranks and launcher is None:
        options = {_option(word).partition("=")[0] for word in words[start : found.place if found else None]}
        launcher = _Launcher(name, () if options & set(program.counts) else program.counts)
    if found is None:
        return _parts(None, launcher)
    if is_command:
        return _of_command(words, found.place, launcher)
    inner = _MODULES.get(found.name) if found.is_module else None
    if inner is None:
        return _parts(found, launcher)
    return _of_program(f"python -m {found.name}", inner, words, found.place + 1, launcher)


def _name(word: str) -> str:
    name = os.path.basename(word)
    match = re.match(_VERSION, name)
    return (match.group(1) or match.group(2)) if match else name


def _operand(program: Program, words: Sequence[str], start: int) -> Tuple[Optional[Script], bool]:
    """What a program runs, by its words from `start` on, and whether that is a command of its own."""
    place, skipped, is_module, is_command = start, program.skipped, False, program.runs == "command"
    if program.subcommand:
        place += 1
        if tuple(words[start:place]) != (program.subcommand,):
            return None, False
    while place < len(words):
        word, place = words[place], place + 1
        if word == "--" or (program.runs == "command" and re.match(_ASSIGNMENT, word)):  # env NAME=value
            continue
        if not _is_option(program, word):
            if skipped:
                skipped -= 1
                continue
            script = None if word == "-" else Script(place - 1, word, is_module and not is_command)
            return script, is_command
        taken = _taken(program, word)
        if taken.ends:
            return None, False
        if taken.names_module:
            named = Script(place - 1, taken.module) if taken.module else _at(words, place)
            return (named._replace(is_module=True) if named else None), False
        is_module, is_command = is_module or taken.is_module, is_command or taken.is_command
        place += taken.words
    return None, False


def _option(word: str) -> str:
    """Launchers take `--nproc_per_node` and `--nproc-per-node` alike."""
    return word.replace("_", "-") if word.startswith("--") else word


def _at(words: Sequence[str], place: int) -> Optional[Script]:
    return Script(place, words[place]) if place < len(words) else None


def _is_option(program: Program, word: str) -> bool:
    return len(word) > 1 and (word[0] == "-" or (word[0] == "+" and "+o" in (program.values or {})))


class _Taken(NamedTuple):
    """What an option takes: `words` after it, a module (with `module` empty, the next word is its name), the
    rest of the command (`ends`); or what it says of the first word that is no option."""

    words: int = 0
    names_module: bool = False
    module: str = ""
    ends: bool = False
    is_module: bool = False
    is_command: bool = False


def _taken(program: Program, word: str) -> _Taken:
    if program.values is None:
        option = _option(word)
        if option in program.flags:
            of_module = program.module == "flag" and option in ("-m", "--module")
            return _Taken(is_module=of_module, is_command=option in program.bare)
        return _Taken(0 if "=" in word else 1)
    if word in program.values:
        return _Taken(program.values[word])
    if word.startswith("--") or (program.runs == "command" and not program.letters):
        return _Taken()
    for place, letter in enumerate(word[1:], 2):
        if letter == "m" and program.module == "value":
            return _Taken(names_module=True, module=word[place:])
        if letter in program.ends:
            return _Taken(ends=True)
        if letter in program.letters:
            return _Taken(0 if word[place:] else 1)
    return _Taken()
