"""Requirements between options: an option that is allowed only if another one has a certain value."""

from __future__ import annotations

import click
from click.core import ParameterSource

from ma_boot.cli.options.declared import DeclaredOption
from ma_boot.node.option import Requirement
from ma_boot.node.rehearsal_options import LOCAL


def find_unmet_requirements(ctx: click.Context) -> list[str]:
    """Returns a line for each requirement that is not met, with the options given despite it.

    Each option is named as the user wrote it: as an option, as its environment variable, or as a key of the
    job file. A job file for `--local` may set options that need `--local`.
    """
    has_job_file = bool(ctx.params.get("job"))
    unmet: dict[Requirement, list[str]] = {}
    for option in ctx.command.params:
        source = ctx.get_parameter_source(option.name or "")
        if not isinstance(option, DeclaredOption) or source is ParameterSource.DEFAULT:
            continue
        missing = [each for each in option.declared.requires if not _is_met(each, ctx)]
        # Values of the environment and of a job file reach click as its `default_map`.
        is_mapped = source is ParameterSource.DEFAULT_MAP
        if missing and not (has_job_file and is_mapped and missing[0] is LOCAL):
            is_variable = option.declared.variable_only or (is_mapped and not has_job_file)
            name = option.declared.variable if is_variable else option.opts[-1]
            unmet.setdefault(missing[0], []).append(name)
    return [f"{', '.join(names)}: {requirement.message}" for requirement, names in unmet.items()]


def _is_met(requirement: Requirement, ctx: click.Context) -> bool:
    if requirement.either and ctx.params[requirement.either]:
        return True
    return bool(ctx.params[requirement.option] == requirement.value)
