"""Selection of the code by `--exclude` and by .gitignore files, as git applies them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from path_mapping.mapping.selection import pattern_problem

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_FILE = ".gitignore"


class CodeFilter:
    """Decides which files of a code directory belong to the code.

    Patterns of `exclude` come first, then the .gitignore of the deepest directory; of one file, the last
    pattern that matches decides. Beside those below `code`, the .gitignore files above it count up to the top
    of a git repository, unless they ignore `code` itself. None of them leaves out `script`. `ignored` lists
    what they leave out.
    """

    def __init__(self, code: Path, exclude: Sequence[str], script: str | None) -> None:
        self._code = code
        self._script = code / script if script else None
        self._exclude = _spec(exclude)
        self._specs: dict[Path, GitIgnoreSpec] = {}
        self.ignored: list[str] = []
        above = _up_to_repository(code)
        for directory in above:
            self._read(directory)
        if any(self._by_git(part, is_directory=True) for part in (*above[1:], code)):
            self._specs.clear()

    def enter(self, directory: Path) -> None:
        """Reads the .gitignore of a directory, before the files in it are asked for."""
        self._read(directory)

    def has(self, path: Path, is_directory: bool) -> bool:
        """Returns whether a file or a directory belongs to the code."""
        name = _name(path, self._code, is_directory)
        excluded = self._exclude.check_file(name).include
        if excluded is not None:
            return not excluded
        is_script = self._script is not None and (path == self._script or path in self._script.parents)
        if is_script or not self._by_git(path, is_directory):
            return True
        self.ignored.append(name)
        return False

    def _read(self, directory: Path) -> None:
        try:
            lines = (directory / _FILE).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return
        self._specs[directory] = _spec(lines)

    def _by_git(self, path: Path, is_directory: bool) -> bool:
        for directory in path.parents:
            spec = self._specs.get(directory)
            ignored = spec.check_file(_name(path, directory, is_directory)).include if spec else None
            if ignored is not None:
                return ignored
        return False


def _spec(lines: Sequence[str]) -> GitIgnoreSpec:
    """Reads patterns; skips comments and what git itself would not take as one."""
    from pathspec import GitIgnoreSpec  # slow to import

    return GitIgnoreSpec.from_lines([line for line in lines if pattern_problem(line) is None])


def _name(path: Path, directory: Path, is_directory: bool) -> str:
    return path.relative_to(directory).as_posix() + ("/" if is_directory else "")


def _up_to_repository(code: Path) -> tuple[Path, ...]:
    """Returns the directories above the code from the top of its git repository; none without one."""
    if (code / ".git").exists():
        return ()
    parents = list(code.parents)
    top = next((number for number, parent in enumerate(parents) if (parent / ".git").exists()), None)
    return () if top is None else tuple(reversed(parents[: top + 1]))
