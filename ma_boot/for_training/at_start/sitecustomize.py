"""Lets ma_boot read PyTorch's record of collectives while a rank hangs in one (docs/supervision.md).

Python imports `sitecustomize` at its start. The record of gloo can only be read inside the process, and a
hung main thread runs no signal handler. So a thread waits in `open` of a named pipe, once `torch.distributed`
is imported: it uses no CPU, holds no lock, and is not inherited by forks. Nothing raises here: the training
has precedence. The directory is `MABOOT_RECORDS`; without it, only the Python's own `sitecustomize` runs.
"""

import os
import sys

_DIRECTORY = os.environ.get("MABOOT_RECORDS")
_TORCH = "torch.distributed.distributed_c10d"
# Names of PyTorch before 2.9; later versions warn of them, so they are not set for all.
_OLD_NAMES = {
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "TORCH_FR_BUFFER_SIZE",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "TORCH_FR_DUMP_TEMP_FILE",
}


def run_hidden_module():
    """Runs the environment's own `sitecustomize`, which this file hides."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec("sitecustomize", [p for p in sys.path if os.path.abspath(p) != here])
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


class TorchWatch:
    """Finder that finds no module: it starts the thread at the import of `torch.distributed`."""

    started = False

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        """Returns None, so that the other finders look for the module."""
        if name == _TORCH and not cls.started:
            cls.started = True
            try:
                name_for_old_versions()
                # Not `threading`: its list of threads is the training's.
                import _thread

                _thread.start_new_thread(wait_for_ma_boot, ())
            except Exception:  # the limit of threads, or another torch than PyTorch's
                pass


def name_for_old_versions():
    """Sets the old names of the variables, which PyTorch reads when it creates the first process group."""
    version = sys.modules["torch"].__version__.split(".")
    if (int(version[0]), int(version[1])) < (2, 9):
        for old, new in _OLD_NAMES.items():
            if new in os.environ:
                os.environ.setdefault(old, os.environ[new])


def wait_for_ma_boot():
    """Writes the record each time that ma_boot opens the pipe of this process."""
    try:
        pipe = os.path.join(_DIRECTORY, str(os.getpid()) + ".pipe")
        if os.path.exists(pipe):
            os.unlink(pipe)
        os.mkfifo(pipe, 0o600)
        while True:
            asked = os.open(pipe, os.O_RDONLY)
            try:
                while os.read(asked, 64):
                    pass
            finally:
                os.close(asked)
            write_record()
    except Exception:  # no permission, or the interpreter ends
        pass


def write_record():
    """Writes the record to `PID.json`, with the members of the process groups, which gloo does not record."""
    import json

    dump = getattr(sys.modules.get("torch._C._distributed_c10d"), "_dump_fr_trace_json", None)
    if dump is None:  # an older PyTorch, which does not record gloo
        return
    text = dump()
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    target = os.path.join(_DIRECTORY, str(os.getpid()) + ".json")
    with open(target + ".part", "w", encoding="utf-8") as file:
        file.write('{"members": ' + json.dumps(members_of_groups()) + ', "record": ' + text + "}")
    os.replace(target + ".part", target)


def members_of_groups():
    """Returns the ranks of each process group by its name."""
    try:
        world = sys.modules[_TORCH]._world
        names = dict(world.pg_names)
        return {names[group]: sorted(ranks) for group, ranks in dict(world.pg_group_ranks).items()}
    except Exception:  # private names, and another thread may be creating a group
        return {}


try:
    run_hidden_module()
finally:
    if _DIRECTORY:
        sys.meta_path.insert(0, TorchWatch)
