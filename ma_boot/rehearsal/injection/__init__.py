"""Injects the faults of ranks and nodes into a running job, from outside."""

from ma_boot.rehearsal.injection.injector import Injector as Injector, why_not_injected as why_not_injected
from ma_boot.rehearsal.injection.watch import Watch as Watch
