"""Options for checks before a job: of the container, and of what would be started."""

from __future__ import annotations

from ma_boot.cli.options.option import PLAN, PROCESS, RunOption, Topic

PLAN_TOPIC = Topic(
    "plan",
    "check the container, and show what would be started",
    ("ma_boot --preflight train.py", "ma_boot --local --nodes 2 --devices-per-node 8 --plan --json train.py"),
    (
        RunOption(
            "--preflight",
            is_flag=True,
            common=True,
            help="Run the quick checks of ma_boot doctor first.",
        ),
        RunOption(
            "--plan",
            is_flag=True,
            requires=(PROCESS,),
            common=True,
            help="Print what would be started, and exit.",
        ),
        RunOption("--json", "as_json", is_flag=True, requires=(PLAN,), help="Print the plan as JSON."),
    ),
    "See `ma_boot doctor --help` for all checks.",
)
