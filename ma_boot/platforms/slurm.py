"""Slurm: `srun --ntasks-per-node 1 ma_boot ...` (srun's manual, output environment variables)."""

from __future__ import annotations

import re
from typing import List, Tuple

from ma_boot.platforms.facts import Around, Fact, Facts, add


def facts(around: Around, problems: List[str]) -> Facts:
    """What Slurm says about the step, or about the job where there is none."""
    found: Facts = {}
    add(found, "job", around.given("SLURM_JOB_ID"), problems)
    for what, *names in (("node", "SLURM_NODEID"), ("nodes", "SLURM_STEP_NUM_NODES", "SLURM_NNODES")):
        fact = around.given(*names)
        if fact is not None and around.number(fact.source, problems) is not None:
            add(found, what, fact, problems)
    hosts = around.given("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
    if hosts is not None:
        found["hosts"] = Fact(",".join(hosts_in(hosts.value)), hosts.source)
    local = around.number("SLURM_LOCALID", problems)
    if local:
        problems.append(
            f"SLURM_LOCALID is {local}: ma_boot was started several times on this node, and would start all "
            "ranks as often; start it once per node (srun --ntasks-per-node 1)"
        )
    nodes = around.number("SLURM_NNODES", problems) or 1
    if nodes > 1 and not around.given("SLURM_STEP_NUM_NODES", "SLURM_STEP_ID"):
        problems.append(
            f"SLURM_NNODES is {nodes}, and there is no SLURM_STEP_NUM_NODES: the batch script runs on the "
            "first node alone; start ma_boot on all of them (srun --ntasks-per-node 1 ma_boot ...)"
        )
    add(found, "master", around.given("MASTER_ADDR"), problems)
    if around.number("MASTER_PORT", problems) is not None:
        add(found, "port", around.given("MASTER_PORT"), problems)
    return found


def hosts_in(text: str) -> Tuple[str, ...]:
    """The names in a list of Slurm's, such as `a[01-03,7],b`."""
    names: List[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        heads = [""]
        for plain, inside in re.findall(r"([^\[]+)|\[([^\]]*)\]", part):
            ends = _numbers(inside) if inside else [plain]
            heads = [head + end for head in heads for end in ends]
        names += heads
    return tuple(names)


def _numbers(text: str) -> List[str]:
    """The numbers of `01-03,7`, as wide as they are written."""
    found: List[str] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if last.isdecimal() and first.isdecimal():
            found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
        else:
            found.append(part)
    return found
