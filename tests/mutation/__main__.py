"""`python -m tests.mutation ROOM [--seed N] [--minutes N]`: the score goes into CONTRIBUTING.md, survivors are printed."""

from __future__ import annotations

import argparse
import datetime
import re
import resource
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

import yaml

from tests.mutation.earlier import Earlier
from tests.mutation.mutants import Mutant, Place, mutant_at, places_of, shuffled
from tests.mutation.rooms import ROOMS, Room
from tests.mutation.run import Runner, run_collected
from tests.mutation.tree import make_tree, python_of

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
        share = 100 * killed // max(1, self.tried - self.equivalent)  # 100 only if none survived
        which = "all" if self.tried == self.all else f"{self.tried} of {self.all}, seed {seed}"
        return f"| {name} | {which} | {killed} | {self.equivalent} | {len(self.survived)} | {share} % | {datetime.date.today()} |"


def equivalents() -> Dict[Tuple[str, str, str], str]:
    """File, line before, line after -> why no test can tell them apart."""
    entries = yaml.safe_load(EQUIVALENT.read_text(encoding="utf-8")) or []
    return {
        (entry["file"], entry["before"], after): entry["why"]
        for entry in entries
        for after in ([entry["after"]] if isinstance(entry["after"], str) else entry["after"])
    }


def measure(room: Room, minutes: float, seed: int, only: str) -> Score:
    """Tries the mutants of a room in a random order, as many as there is time for; runs in the copy of the tree."""
    copy = Path.cwd()
    known = equivalents()
    _refuse_stale(copy, [(path, before) for path, before, _ in known if path.startswith(f"{room.folder}/")])
    places = [place for place in places_of(copy, room.folder) if only in f"{place.path}:{place.line}:"]
    earlier, scores = Earlier(copy), []

    def work(runner: Runner) -> None:
        _expect_good_tests(runner, copy, places)
        runner.selection.noticed.update(earlier.tests())
        tried, equivalent, survived = 0, 0, []
        until = time.monotonic() + 60 * minutes
        for tried, place in enumerate(shuffled(places, seed), 1):
            mutant = mutant_at(copy, place)
            if (mutant.path, mutant.before, mutant.after) in known:
                equivalent += 1
            elif earlier.noticed(mutant):
                continue
            elif runner.notices(mutant):
                earlier.add(mutant, runner.at())
            else:
                survived.append(mutant)
                print(f"{tried}/{len(places)} survived: {mutant}", flush=True)
            if time.monotonic() >= until:
                break
        scores.append(Score(len(places), tried, equivalent, survived))

    run_collected(copy, room.folder, room.tests, work)
    if not scores:
        sys.exit(f"the tests did not run: {copy.parent}/output.txt")
    return scores[0]


def _expect_good_tests(runner: Runner, copy: Path, places: List[Place]) -> None:
    """A change of nothing, in a function and in a module, must not be noticed."""
    inside = [runner.selection.function(place.path, place.line) is not None for place in places]
    for place in [places[inside.index(which)] for which in {*inside}]:
        source = (copy / place.path).read_text(encoding="utf-8")
        if runner.notices(Mutant(place.path, place.line, "none", "", "", source)):
            sys.exit(f"the tests fail without any change: {copy.parent}/output.txt")


def _refuse_stale(copy: Path, known: List[Tuple[str, str]]) -> None:
    stale = []
    for path, before in dict.fromkeys(known):
        lines = (copy / path).read_text(encoding="utf-8").splitlines() if (copy / path).exists() else []
        if not {before, before.partition(" / ")[0]} & {
            line.strip() for line in lines
        }:  # of several the first
            stale.append(f"{path}: {before}")
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
    parser.add_argument("--only", default="", help="FILE:LINE: those there; the table stays as it is")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)  # in the copy
    options = parser.parse_args()
    if not options.inside:
        copy = make_tree(ROOT, WORK / options.room, ROOMS[options.room].folder)
        arguments = [str(python_of(copy)), "-m", "tests.mutation", *sys.argv[1:], "--inside"]
        row = copy.parent / "row"
        row.unlink(missing_ok=True)
        code = subprocess.run(arguments, cwd=copy).returncode
        if row.exists() and not options.only:
            write_row(options.room, row.read_text(encoding="utf-8"))
        sys.exit(code)
    before = time.monotonic()
    score = measure(ROOMS[options.room], options.minutes, options.seed, options.only)
    written = score.row(options.room, options.seed)
    (Path.cwd().parent / "row").write_text(written, encoding="utf-8")
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    spent = sum(one.ru_utime + one.ru_stime for one in used)
    print(
        f"cosmic-ray {version('cosmic-ray')}: {written}\n{spent:.0f} CPU seconds, {time.monotonic() - before:.0f} seconds"
    )
    sys.exit(1 if score.survived else 0)


if __name__ == "__main__":
    main()
