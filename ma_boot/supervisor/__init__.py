"""Starts, watches and stops the processes of a launch plan."""

from ma_boot.supervisor.output import WorkerOutput as WorkerOutput
from ma_boot.supervisor.supervise import Limits as Limits, Observer as Observer, supervise as supervise
from ma_boot.supervisor.worker_group import Worker as Worker
