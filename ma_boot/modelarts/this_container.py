"""What tells a container from others without any variable: its addresses and the numbers of its cards."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import Dict, FrozenSet, List, Mapping, Tuple

from ma_boot.platforms import Around
from ma_boot.processes import file_text
from ma_boot.rank_table import Identity

_CARD = "davinci"
_LOCAL = r"\|-- (\S+)\n\s+/32 host LOCAL"

_TABLES = ("/user/config/jobstart_hccl.json", "/user/serverid/devindex/config/hccl.json")


def look_around(environ: Mapping[str, str], hostname: str, root: str = "/") -> Around:
    """What is around this node: Volcano's files of hosts, places of rank tables, cards."""
    hosts = _hosts_of_tasks(os.path.join(root, "etc", "volcano"))
    places = (os.path.join(root, table.lstrip("/")) for table in _TABLES)
    tables = tuple(place for place in places if os.path.isdir(os.path.dirname(place)))
    return Around(environ, hostname, hosts, tables, own_devices(os.path.join(root, "dev")))


def _hosts_of_tasks(directory: str) -> Dict[str, Tuple[str, ...]]:
    """The names of hosts in each file `TASK.host`, by task."""
    try:
        files = [name for name in sorted(os.listdir(directory)) if name.endswith(".host")]
    except OSError:
        return {}
    return {name[: -len(".host")]: tuple(file_text(Path(directory, name)).split()) for name in files}


def with_machine(who: Identity) -> Identity:
    """The identity, with the addresses and cards of this machine."""
    known = (*who.addresses, *own_addresses())
    return who._replace(addresses=tuple(dict.fromkeys(known)), devices=own_devices())


def own_addresses(proc: str = "/proc") -> Tuple[str, ...]:
    """The addresses of this container's network interfaces, without those of loopback and of links."""
    found: List[str] = re.findall(_LOCAL, file_text(Path(proc, "net", "fib_trie")))
    for line in file_text(Path(proc, "net", "if_inet6")).splitlines():
        digits = line.split()[0]
        found.append(":".join(digits[i : i + 4] for i in range(0, 32, 4)))
    addresses = [ipaddress.ip_address(text) for text in dict.fromkeys(found)]
    return tuple(str(one) for one in addresses if not (one.is_loopback or one.is_link_local))


def own_devices(dev: str = "/dev") -> FrozenSet[int]:
    """The physical numbers of this container's cards; empty if it has none."""
    try:
        names = os.listdir(dev)
    except OSError:
        return frozenset()
    numbers = [name[len(_CARD) :] for name in names if name.startswith(_CARD)]
    return frozenset(int(number) for number in numbers if number.isdecimal())  # davinci_manager is no card
