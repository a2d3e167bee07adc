"""Faults of a rehearsal: their grammar, the catalogue, what is expected of each. Pure, cheap to import."""

from ma_boot.rehearsal.faults.catalogue import (
    CASES as CASES,
    TABLE_SECONDS as TABLE_SECONDS,
    TRIVIAL_TRAINING as TRIVIAL_TRAINING,
    Case as Case,
)
from ma_boot.rehearsal.faults.expectations import Patience as Patience, expected as expected
from ma_boot.rehearsal.faults.grammar import (
    ALL_FAULTS as ALL_FAULTS,
    KINDS as KINDS,
    Fault as Fault,
    parse_faults as parse_faults,
)
from ma_boot.rehearsal.faults.verdict import (
    FaultVerdict as FaultVerdict,
    InjectedFault as InjectedFault,
    JobEnd as JobEnd,
    OutputFiles as OutputFiles,
    deviations as deviations,
    verdict_on as verdict_on,
)
