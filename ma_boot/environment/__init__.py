"""The environment and the command of the training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ma_boot.environment.command import FoundCommand, find_command, find_file, find_program, no_such_file
from ma_boot.environment.command_words import CommandParts, Script, command_parts
from ma_boot.environment.conda import existing_environments, find_environment
from ma_boot.environment.patch import applied, difference
from ma_boot.environment.shell import environment_after, passable
from ma_boot.environment.training_environment import TrainingEnvironment, select_environment
from path_mapping.when_used import when_used

if TYPE_CHECKING:
    from ma_boot.environment.own_packages import package_place
else:  # few jobs install packages
    __getattr__ = when_used(__name__, {"own_packages": ("package_place",)})

__all__ = [
    "CommandParts",
    "FoundCommand",
    "Script",
    "TrainingEnvironment",
    "applied",
    "command_parts",
    "difference",
    "environment_after",
    "existing_environments",
    "find_command",
    "find_environment",
    "find_file",
    "find_program",
    "no_such_file",
    "package_place",
    "passable",
    "select_environment",
]
