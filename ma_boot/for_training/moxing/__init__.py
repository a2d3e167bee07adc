"""MoXing for trainings whose Python has none: `moxing.file` is `path_mapping.file`. An installed MoXing wins.

`PYTHONPATH` comes before `site-packages`, so this package is found first. It therefore searches for another
one on each import, and leaves its place to it.
"""

import importlib.util
import os
import sys

_NOTICE = "MABOOT_MOXING_NOTICE"
_LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
_FOR_TRAINING = os.path.join("ma_boot", "for_training")


def _is_stand_in(entry):
    """Tells whether an entry of `sys.path` holds a package like this one, of any copy of ma_boot."""
    return os.path.realpath(entry).endswith(os.sep + _FOR_TRAINING)


def _installed():
    """Returns the spec of another `moxing`; None without one.

    All finders are asked, as that of an editable installation need not be on `sys.path`.
    """
    entries = [entry for entry in sys.path if not _is_stand_in(entry)]
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        spec = find_spec("moxing", entries) if find_spec is not None else None
        if spec is not None and (spec.loader is not None or _has_code(spec)):
            return spec
    return None


def _has_code(spec):
    """Tells whether a directory without `__init__.py` has modules: an output may be called `moxing`, too."""
    places = filter(os.path.isdir, spec.submodule_search_locations or ())
    names = [name for place in places for name in os.listdir(place)]
    return any(name.endswith(".py") or name == "framework" for name in names)


def _load(spec):
    """Puts the installed package in the place of this one; the import statement returns what is there."""
    module = importlib.util.module_from_spec(spec)
    # Other threads wait for the import while this is set, as for one by an import statement.
    spec._initializing = True
    sys.modules["moxing"] = module
    try:
        if spec.loader is not None:
            spec.loader.exec_module(module)
    finally:
        spec._initializing = False


def _announce():
    """Prints once on a node that this is not MoXing: in the first rank, and in no child process of it."""
    ranks = [os.environ[name] for name in _LOCAL_RANKS if name in os.environ]
    if "".join(ranks[:1]) in ("", "0") and _NOTICE not in os.environ:
        os.environ[_NOTICE] = "1"
        sys.stderr.write(
            "[ma_boot] this Python has no MoXing: `moxing.file` is path_mapping.file of ma_boot; "
            "an installed MoXing would be used instead\n"
        )


_spec = _installed()
if _spec is not None:
    _load(_spec)
else:
    _announce()


def __getattr__(name):
    """Loads `file` on demand, as `path_mapping` does, and `framework`."""
    if name in ("file", "framework"):
        return importlib.import_module("moxing." + name)
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise AttributeError(
        f"moxing.{name}: ma_boot has only moxing.file; install MoXing in this Python for the rest of it"
    )
