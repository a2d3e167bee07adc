"""Injects the faults of ranks and nodes into a running job, from outside."""

from ma_boot.rehearsal.injection.injector import Injector, why_not_injected
from ma_boot.rehearsal.injection.watch import Watch

__all__ = ["Injector", "Watch", "why_not_injected"]
