"""`python -m tests.budget [--enforce]`: how large the project is, beside its limits; growth is a decision."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Dict, List

from ma_boot.cli.app import commands
from tests.command_lines import all_commands, options_of

ROOT = Path(__file__).parents[1]
LIMITS = {
    "lines of the product": 40_000,
    "lines of the tests": 42_000,
    "lines of the documents": None,
    "modules": 300,
    "options of run": 45,
    "options of all commands": 160,
}


def measured() -> Dict[str, int]:
    """The figures of the files that git knows, and of the commands."""
    product = files("ma_boot/*.py", "path_mapping/*.py")
    options = {name: len(options_of(command)) for name, command in all_commands(commands)}
    return {
        "lines of the product": lines(product),
        "lines of the tests": lines(files("tests/*.py")),
        "lines of the documents": lines(files("*.md")),
        "modules": len(product),
        "options of run": options["run"],
        "options of all commands": sum(options.values()),
    }


def files(*patterns: str) -> List[Path]:
    """The files of these patterns that are in the repository."""
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, check=True, capture_output=True)
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def lines(paths: List[Path]) -> int:
    return sum(path.read_bytes().count(b"\n") for path in paths)


def main() -> int:
    """Prints a line for each figure; with `--enforce`, 1 if one is above its limit."""
    over = []
    for name, figure in measured().items():
        limit = LIMITS[name]
        if limit is not None and figure > limit:
            over.append(name)
        print(f"{name:24} {figure:>7,}" + (f"  of at most {limit:,}" if limit else ""))
    if over:
        print(f"above the limit: {', '.join(over)}", file=sys.stderr)
    return 1 if over and "--enforce" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
