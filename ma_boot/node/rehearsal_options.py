"""Options of a rehearsal: the simulated job, its faults, and its containers.

Declared beside the options of a node: each boot command parses all of them, also in an image without the wing
`desk`, which acts on them.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ma_boot.node.option import DIR, SECONDS, Requirement, ValueKind, choice, option, option_group, whole

LOCAL = Requirement("local", True, "only for rehearsals; add --local.")
DOCKER = Requirement("runner", "docker", "only for containers; add --runner docker.")
PROCESS = Requirement("runner", "process", "only with --runner process.")
_rehearsed = partial(option, topic="rehearsal", requires=(LOCAL,))
_contained = partial(option, topic="containers", requires=(LOCAL, DOCKER))


@option_group
class RehearsalOptions(NamedTuple):
    """The simulated job: paths and faults as the user wrote them, the delay in seconds."""

    nodes: int = _rehearsed(1, "Number of nodes of a rehearsal.", kind=whole("N", 1, 1024), common=True)
    devices_per_node: int = _rehearsed(
        1, "Cards per node of a rehearsal.", kind=whole("N", 1, 16), common=True
    )
    rank_table_delay: float = _rehearsed(
        0.5, "Delay until the rank table is completed.", kind=SECONDS, variable_only=True
    )
    code_dir: str | None = _rehearsed(None, "The job's code directory; default: COMMAND's.", kind=DIR)
    exclude: tuple[str, ...] = _rehearsed(
        (),
        "Parts of the code not to copy, as in .gitignore.",
        kind=ValueKind("PATTERN"),
        multiple=True,
    )
    rehearsal_dir: str = _rehearsed("ma_boot-rehearsal", "Directory of the simulated nodes.", kind=DIR)
    keep_rehearsals: int = _rehearsed(
        20, "Keep the N newest rehearsals, and remove older ones.", kind=whole("N", 1), variable_only=True
    )
    input: tuple[str, ...] = _rehearsed(
        (),
        "An input of the job form, e.g. data_url=obs://bucket/data/.",
        kind=ValueKind("NAME=OBS"),
        multiple=True,
    )
    output: tuple[str, ...] = _rehearsed(
        (), "An output of the job form.", kind=ValueKind("NAME=OBS"), multiple=True
    )
    append_args: str | None = _rehearsed(
        None, "Arguments that the platform appends to COMMAND.", kind=ValueKind("ARGS")
    )
    sandbox: str | None = option(
        None,
        "Mount /home/ma-user, /cache and /user/config with bubblewrap.",
        kind=choice("bwrap"),
        topic="rehearsal",
        requires=(LOCAL, PROCESS),
    )
    fault: tuple[str, ...] = option(
        (),
        "A fault to inject; may be repeated.",
        kind=ValueKind("FAULT", completes="fault"),
        topic="faults",
        multiple=True,
        requires=(LOCAL,),
    )
    runner: str = option(
        "process",
        "Run each node as a process, or as a container of --image.",
        kind=choice("process", "docker"),
        topic="containers",
        requires=(LOCAL,),
    )


# Exponents of 2 for the units of a size, as docker and podman count.
_POWERS = {"k": 10, "m": 20, "g": 30}


def _parse_bytes(text: str) -> int:
    power = _POWERS.get(text[-1:].lower(), 0)
    number = text[:-1] if power else text
    if number.isascii() and number.isdecimal():
        return int(number) << power
    raise ValueError(f"found {text!r}, expected a number of bytes, or one with k, m or g (512m)")


def _write_bytes(count: int) -> str:
    """The number with the largest unit that leaves no fraction."""
    for unit, power in reversed(_POWERS.items()):
        if count and count % (1 << power) == 0:
            return f"{count >> power}{unit}"
    return str(count)


_SIZE = ValueKind("SIZE", _parse_bytes, _write_bytes)


@option_group
class ContainerOptions(NamedTuple):
    """Containers of a rehearsal; sizes are in bytes, None for no limit.

    `boot_shell` is the shell that starts the boot command, or `none`; `boot_prefix` is text before `ma_boot`
    in the boot command.
    """

    image: str = _contained("", "The job's image.", kind=ValueKind("IMAGE"))
    memory: int | None = _contained(
        None, "Memory limit of a node, e.g. 512m or 64g.", kind=_SIZE, variable_only=True
    )
    shm_size: int = _contained(2 << 30, "Size of a node's /dev/shm.", kind=_SIZE, variable_only=True)
    boot_shell: str = _contained(
        "none",
        "Start the boot command with a shell, as the platform may do.",
        kind=choice("none", "sh", "bash"),
        variable_only=True,
    )
    boot_prefix: str | None = _contained(
        None,
        "Text before `ma_boot` in the boot command, e.g. 'cd code && exec'.",
        kind=ValueKind("TEXT"),
        variable_only=True,
    )
    keep: bool = _contained(False, "Keep the containers afterwards.", variable_only=True)
