"""Faults of a rehearsal: their grammar. Pure, cheap to import."""

from ma_boot.rehearsal.faults.grammar import KINDS as KINDS, Fault as Fault, parse_faults as parse_faults
