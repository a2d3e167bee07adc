"""Facts about this machine that identify the node: Volcano's files, rank tables, cards and addresses."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from pathlib import Path

from ma_boot.platform.rank_table import Identity
from ma_boot.platform.recognition.modelarts import MINDCLUSTER_TABLE, TABLE_NAME, TABLE_VARIABLES
from ma_boot.platform.recognition.place import Surroundings
from ma_boot.processes.control_group import file_text

# Device files of the cards: davinci0, davinci1; davinci_manager is none.
_CARD = "davinci"
# An address of this machine in /proc/net/fib_trie.
_LOCAL = r"\|-- (\S+)\n\s+/32 host LOCAL"
# Usual paths of a rank table: ModelArts' and MindCluster's.
_TABLES = ("/user/config/jobstart_hccl.json", "/user/serverid/devindex/config/hccl.json")


def read_surroundings(environ: Mapping[str, str], hostname: str, root: str = "/") -> Surroundings:
    """Reads Volcano's files of hosts, the paths of rank tables, and the cards of this machine."""
    hosts = _read_host_files(os.path.join(root, "etc", "volcano"))
    directories = (environ.get(name, "").strip() for name in TABLE_VARIABLES)
    files = [
        os.path.join(directory, name)
        for directory in directories
        if directory
        for name in (TABLE_NAME, MINDCLUSTER_TABLE)
    ]
    usual = [os.path.join(root, table.lstrip("/")) for table in _TABLES]
    tables = (
        *(file for file in files if os.path.isfile(file)),
        # The platform may write the file later, but mounts its directory at the start.
        *(file for file in usual if os.path.isdir(os.path.dirname(file))),
    )
    return Surroundings(environ, hostname, hosts, tables, own_devices(os.path.join(root, "dev")))


def _read_host_files(directory: str) -> dict[str, tuple[str, ...]]:
    """Reads the names of hosts in the files `<task>.host`, by task."""
    try:
        files = [name for name in sorted(os.listdir(directory)) if name.endswith(".host")]
    except OSError:
        return {}
    return {name[: -len(".host")]: tuple(file_text(Path(directory, name)).split()) for name in files}


def with_machine(identity: Identity) -> Identity:
    """Returns the identity with the addresses and the cards of this machine."""
    known = (*identity.addresses, *own_addresses())
    return identity._replace(addresses=tuple(dict.fromkeys(known)), devices=own_devices())


def own_addresses(proc: str = "/proc") -> tuple[str, ...]:
    """Returns the addresses of the network interfaces, without loopback and link-local ones."""
    texts: list[str] = re.findall(_LOCAL, file_text(Path(proc, "net", "fib_trie")))
    for line in file_text(Path(proc, "net", "if_inet6")).splitlines():
        digits = line.split()[0]
        texts.append(":".join(digits[i : i + 4] for i in range(0, 32, 4)))
    addresses = [ipaddress.ip_address(text) for text in dict.fromkeys(texts)]
    return tuple(str(address) for address in addresses if not (address.is_loopback or address.is_link_local))


def own_devices(dev: str = "/dev") -> frozenset[int]:
    """Returns the physical numbers of this container's cards; empty without cards."""
    try:
        names = os.listdir(dev)
    except OSError:
        return frozenset()
    numbers = [name[len(_CARD) :] for name in names if name.startswith(_CARD)]
    return frozenset(int(number) for number in numbers if number.isdecimal())
