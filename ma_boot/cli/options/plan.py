"""Options for a look before a job: at the container, and at what would be started."""

from __future__ import annotations

from ma_boot.cli.options.option import PLAN, PROCESS_PLAN, RunOption, Topic

PLAN_TOPIC = Topic(
    "plan",
    "a look at the container and at what would be started",
    (
        "ma_boot --preflight train.py",
        "ma_boot --local --nodes 2 --devices-per-node 8 --plan --json train.py",
    ),
    (
        RunOption(
            "--preflight",
            is_flag=True,
            everyday="Check the container first.",
            help="Check the container first: the cheap half of ma_boot doctor.",
        ),
        RunOption(
            "--plan",
            is_flag=True,
            needs=(PROCESS_PLAN,),
            everyday="Print what would be started, and stop.",
            help="Print what would be started, and stop.",
        ),
        RunOption("--json", "as_json", is_flag=True, needs=(PLAN,), help="Print the plan as JSON."),
    ),
    "See `ma_boot doctor --help` for the whole examination.",
)
