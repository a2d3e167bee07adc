"""Faults of a rehearsal: their grammar, the catalogue, what is expected of each. Pure, cheap to import."""

from ma_boot.rehearsal.faults.catalogue import CASES, TABLE_SECONDS, TRIVIAL_TRAINING, Case
from ma_boot.rehearsal.faults.expectations import Patience, expected
from ma_boot.rehearsal.faults.grammar import ALL_FAULTS, KINDS, Fault, parse_faults
from ma_boot.rehearsal.faults.verdict import (
    FaultVerdict,
    InjectedFault,
    JobEnd,
    OutputFiles,
    deviations,
    verdict_on,
)

__all__ = [
    "ALL_FAULTS",
    "CASES",
    "KINDS",
    "TABLE_SECONDS",
    "TRIVIAL_TRAINING",
    "Case",
    "Fault",
    "FaultVerdict",
    "InjectedFault",
    "JobEnd",
    "OutputFiles",
    "Patience",
    "deviations",
    "expected",
    "parse_faults",
    "verdict_on",
]
