"""`python -m tests.mutation ROOM [--seed N] [--minutes N]`: the score goes into CONTRIBUTING.md, survivors are printed."""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

import yaml

from tests.mutation.mutants import Mutant, mutant_at, places_of, shuffled
from tests.mutation.rooms import ROOMS, Room
from tests.mutation.run import Runner, copy_tree, run_collected

ROOT = Path(__file__).parents[2]
WORK = ROOT / ".mutants"
MINUTES = 10.0
EQUIVALENT = Path(__file__).parent / "equivalent.yaml"


class Score(NamedTuple):
    """How many mutants of a room there are, were run, were found equivalent, and were not noticed."""

    all: int
    tried: int
    equivalent: int
    survived: List[Mutant]

    def row(self, name: str, seed: int) -> str:
        """The row of the table in CONTRIBUTING.md."""
        killed = self.tried - self.equivalent - len(self.survived)
        share = 100 * killed / max(1, self.tried - self.equivalent)
        which = "all" if self.tried == self.all else f"{self.tried} of {self.all}, seed {seed}"
        return f"| {name} | {which} | {killed} | {self.equivalent} | {len(self.survived)} | {share:.0f} % | {datetime.date.today()} |"


def equivalents() -> Dict[Tuple[str, str, str], str]:
    """File, line before, line after -> why no test can tell them apart."""
    entries = yaml.safe_load(EQUIVALENT.read_text(encoding="utf-8")) or []
    return {
        (entry["file"], entry["before"], after): entry["why"]
        for entry in entries
        for after in ([entry["after"]] if isinstance(entry["after"], str) else entry["after"])
    }


def measure(name: str, room: Room, minutes: float, seed: int) -> Score:
    """Tries the mutants of a room in a random order, as many as there is time for."""
    copy = WORK / name / "tree"
    copy_tree(ROOT, copy)
    known = equivalents()
    _refuse_stale(copy, known)
    places = places_of(copy, room.folder)
    scores = []

    def work(runner: Runner) -> None:
        selection = runner.record()
        for line in (1, max(place.line for place in places if place.path == places[0].path)):
            source = (copy / places[0].path).read_text(encoding="utf-8")
            if runner.notices(Mutant(places[0].path, line, "none", "", "", source), selection):
                sys.exit(f"the tests fail without any change: {copy.parent}/output.txt")
        tried, equivalent, survived = 0, 0, []
        until = time.monotonic() + 60 * minutes
        for tried, place in enumerate(shuffled(places, seed), 1):
            mutant = mutant_at(copy, place)
            if (mutant.path, mutant.before, mutant.after) in known:
                equivalent += 1
            elif not runner.notices(mutant, selection):
                survived.append(mutant)
                print(f"{tried}/{len(places)} survived: {mutant}", flush=True)
            if time.monotonic() >= until:
                break
        scores.append(Score(len(places), tried, equivalent, survived))

    run_collected(copy, room.folder, room.tests, work)
    if not scores:
        sys.exit(f"the tests did not run: {copy.parent}/output.txt")
    return scores[0]


def _refuse_stale(copy: Path, known: Dict[Tuple[str, str, str], str]) -> None:
    stale = [
        f"{path}: {before}"
        for path, before, _ in known
        if before not in map(str.strip, (copy / path).read_text(encoding="utf-8").splitlines())
    ]
    if stale:
        sys.exit("\n".join([f"{EQUIVALENT}: no such line any more:", *stale]))


def write_row(name: str, row: str) -> None:
    """Puts the row in place of the room's earlier one."""
    document = ROOT / "CONTRIBUTING.md"
    text, count = re.subn(
        rf"^\| {name} \|.*$", lambda _: row, document.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    if count != 1:
        sys.exit(f"{document}: expected one row of {name}, found {count}")
    document.write_text(text, encoding="utf-8")


def main() -> None:
    """Exits with 1 if a mutant survived that equivalent.yaml does not explain."""
    parser = argparse.ArgumentParser(prog="tests.mutation")
    parser.add_argument("room", choices=ROOMS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="time for the mutants; inf for all")
    options = parser.parse_args()
    score = measure(options.room, ROOMS[options.room], options.minutes, options.seed)
    row = score.row(options.room, options.seed)
    print(f"cosmic-ray {version('cosmic-ray')}: {row}")
    write_row(options.room, row)
    sys.exit(1 if score.survived else 0)


if __name__ == "__main__":
    main()
