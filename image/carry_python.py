"""Copies the Python that runs this into a directory, with all that it needs but the C library.

    python carry_python.py TARGET PATCHELF

The Python is the toolkit's, whose packages decide what of the standard library comes along: what they import.
What is in TARGET then finds its libraries beside itself, so it runs on every image with a C library that is
as new as it asks for, whatever else is or is not there. TARGET/bin/python3 is the interpreter. Libraries come
as the dynamic loader finds them here; what does not look beside itself yet is told to by patchelf, as
auditwheel does.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

from ma_boot.desk.image.toolkit_imports import imports_of

# The C library is the image's own: one process cannot have two.
OF_THE_C_LIBRARY = re.compile(
    r"(ld-linux.*|lib(c|m|mvec|pthread|dl|rt|util|resolv|anl|nss_\w+|BrokenLocale|thread_db))\.so(\.\d+)*"
)
# What no import asks for: packages of others, tests, builds of extensions.
NOT_CARRIED = (
    "site-packages", "dist-packages", "test", "tests", "config-*", "*.a", "*.opt-[12].pyc", "_test*.so",
    "_xx*.so", "xx*.so", "_ctypes_test.*",
)  # fmt: skip
# Large, or with libraries of their own: windows, terminals, databases. They come along if imported.
CARRIED_IF_IMPORTED = (
    "idlelib", "tkinter", "turtle", "turtledemo", "lib2to3", "pydoc_data", "ensurepip", "_tkinter", "_curses",
    "_curses_panel", "readline", "_gdbm", "_dbm", "_sqlite3", "sqlite3", "nis", "_crypt", "ossaudiodev",
)  # fmt: skip
ELF = b"\x7fELF"
FOUND = re.compile(r"\s*(?:(\S+) => )?(/\S+) \(0x[0-9a-f]+\)")  # a line of ldd
MISSED = re.compile(r"(\S+) => not found")


def fail(reason: str) -> None:
    """Ends with the code of a wrong configuration."""
    sys.stderr.write(f"carry_python: {reason}\n")
    sys.exit(78)


def sources_of(module: str) -> Iterator[Path]:
    """The sources of a module or package of the standard library, without tests."""
    for place in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}:
        yield from Path(place).glob(f"{module}.py")
        for file in (Path(place) / module).rglob("*.py"):
            if not {"test", "tests"}.intersection(file.parts):
                yield file


def imported_by_toolkit() -> set[str]:
    """The modules and packages that the installed packages import, and those that these import."""
    reached: set[str] = set()
    packages = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
    sources = [file for place in packages for file in Path(place).rglob("*.py")]
    while sources:
        modules = {used.module.partition(".")[0] for used in imports_of(sources.pop())}
        sources += [file for module in modules - reached for file in sources_of(module)]
        reached |= modules
    return reached


def copy_interpreter(target: Path) -> dict[Path, Path]:
    """The program and the standard library, each at its place below the prefix, where it looks for them.

    Returns where each of their programs and libraries came from.
    """
    unused = sorted(set(CARRIED_IF_IMPORTED) - imported_by_toolkit())
    left_out = (*NOT_CARRIED, *unused, *(f"{module}.*" for module in unused))
    program = Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()
    python = target / "bin" / "python3"
    python.parent.mkdir(parents=True)
    shutil.copy2(program, python)
    for place in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}:
        ignored = shutil.ignore_patterns(*left_out)
        copy = target / os.path.relpath(place, sys.base_prefix)
        shutil.copytree(place, copy, ignore=ignored, ignore_dangling_symlinks=True, dirs_exist_ok=True)
    prefix = Path(sys.base_prefix)
    return {
        file: program if file == python else prefix / file.relative_to(target) for file in programs(target)
    }


def programs(target: Path) -> list[Path]:
    """Every program and library below a directory."""
    files = (Path(folder) / name for folder, _, names in os.walk(target) for name in names)
    return [file for file in sorted(files) if not file.is_symlink() and file.open("rb").read(4) == ELF]


def needed(file: Path) -> dict[str, Optional[Path]]:
    """The libraries with which the loader would start this file, also for one another, without those of the C
    library; None for what it does not find."""
    ldd = subprocess.run(["ldd", str(file)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    text = ldd.stdout.decode()
    libraries: dict[str, Optional[Path]] = dict.fromkeys(map(os.path.basename, MISSED.findall(text)))
    for match in filter(None, map(FOUND.match, text.splitlines())):
        libraries[os.path.basename(match.group(1) or match.group(2))] = Path(match.group(2))
    return {name: path for name, path in libraries.items() if not OF_THE_C_LIBRARY.fullmatch(name)}


def elsewhere(file: Path, target: Path) -> list[str]:
    """The libraries that this file does not find below the directory."""
    root = target.resolve()
    return [name for name, path in needed(file).items() if path is None or root not in path.resolve().parents]


def carry(target: Path, patchelf: str) -> None:
    """Makes TARGET; ends with 78 where something would still be missing."""
    if platform.libc_ver()[0] != "glibc":
        fail("expected a TOOLKIT_IMAGE with glibc: a toolkit with another C library runs on no other image")
    libraries = target / "lib"
    for file, origin in copy_interpreter(target).items():
        needed_here = needed(origin)
        if None in needed_here.values():  # a module that could not be imported there either
            file.unlink()
            continue
        libraries.mkdir(exist_ok=True)
        for name, path in needed_here.items():
            if path is not None and not (libraries / name).exists():
                shutil.copy2(path.resolve(), libraries / name)
    for file in [file for file in programs(target) if elsewhere(file, target)]:
        beside = os.path.join("$ORIGIN", os.path.relpath(libraries, file.parent))
        # RPATH, not RUNPATH: a LD_LIBRARY_PATH of the training must not replace these libraries.
        subprocess.run([patchelf, "--force-rpath", "--set-rpath", beside, str(file)], check=True)
    lost = {file: elsewhere(file, target) for file in programs(target)}
    if any(lost.values()):
        fail("\n".join(f"{file} does not find {', '.join(names)}" for file, names in lost.items() if names))
    python = str(target / "bin" / "python3")
    subprocess.run([python, "-I", "-m", "compileall", "-qq", str(target)], check=False)


if __name__ == "__main__":
    carry(Path(sys.argv[1]), sys.argv[2])
