"""The environment and the command of the training."""

from ma_boot.environment.command import command_argv, find_file
from ma_boot.environment.conda import existing_environments, find_environment
from ma_boot.environment.own_packages import package_place
from ma_boot.environment.patch import applied, difference
from ma_boot.environment.shell import environment_after, passable
from ma_boot.environment.training_environment import TrainingEnvironment, select_environment

__all__ = [
    "TrainingEnvironment",
    "applied",
    "command_argv",
    "difference",
    "environment_after",
    "existing_environments",
    "find_environment",
    "find_file",
    "package_place",
    "passable",
    "select_environment",
]
