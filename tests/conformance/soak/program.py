"""The processes of a soak: one JSON argument in, a line of JSON out for each thing that is done."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any, Callable

from path_mapping import file
from path_mapping.errors import PathMappingError, TransferFailed
from path_mapping.file import file_tree
from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.stores.access import Access, Credentials
from path_mapping.stores.obs_store import ObsStore
from path_mapping.transfer.periodic import upload_periodically
from path_mapping.transfer.transfer import Transferred, download, upload
from path_mapping.workers.retry import RetriedStore
from tests.conformance.soak.model import digest
from tests.conformance.soak.mox_model import Operation

MIB = 1 << 20
INTERVAL = 0.6
PIECE = 70_001


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def store_of(task: dict[str, Any]) -> ObsStore:
    def read() -> Credentials:
        return Credentials(*json.loads(Path(task["keys"]).read_text()))

    access = Access(task["url"], read(), timeout=5, multipart_from=6 * MIB, part=5 * MIB)
    return ObsStore(access, read, patience=20)


def ignore(moved: object) -> None:
    """Ignores the progress."""


def move(task: dict[str, Any]) -> None:
    """Transfers the routes once; before an upload with `periodic`, in rounds until standard input ends."""
    store, base = store_of(task), Path(task["base"])
    routes = [
        Route(local, ObsUrl(task["bucket"], key), interval=INTERVAL, delete=True)
        for local, key in task["routes"]
    ]
    if task.get("periodic"):
        until_the_end_of_input(routes, base, store)
    ways: dict[str, Callable[..., Transferred]] = {"upload": upload, "download": download}
    try:
        moved = ways[task["way"]](routes, base, RetriedStore(store))
        say(failures=[], notices=list(moved.notices))
    except TransferFailed as error:
        say(failures=[str(failure) for failure in error.failures], notices=[])
    except PathMappingError as error:
        say(failures=[f"* {error}"], notices=[])


def until_the_end_of_input(routes: list[Route], base: Path, store: ObsStore) -> None:
    cancel = threading.Event()

    def rounds() -> None:
        upload_periodically(
            routes,
            base,
            RetriedStore(store, cancel),
            done=lambda moved: say(moved=moved.files),
            failed=lambda error: say(missed=str(error)),
        )

    thread = threading.Thread(target=rounds)
    thread.start()
    say(ready=True)
    sys.stdin.read()
    cancel.set()
    thread.join()


class Given(Exception):
    """Given up in the middle of a file."""


class Calls:
    """Calls of `path_mapping.file` for each kind of operation."""

    def __init__(self, bucket: str, base: str) -> None:
        self._objects, self._files = f"obs://{bucket}/mox/", f"{base}/m/"

    def __call__(self, operation: Operation) -> Any:
        return getattr(self, operation.kind)(operation)

    def write(self, asked: Operation) -> None:
        file.write(self._objects + asked.source, asked.content, binary=True)

    def dropped(self, asked: Operation) -> None:
        file.File(self._objects + asked.source, "wb").write(asked.content)

    def aborted(self, asked: Operation) -> None:
        try:
            with file.File(self._objects + asked.source, "wb") as half:
                half.write(asked.content)
                raise Given
        except Given:
            return

    def append(self, asked: Operation) -> None:
        file.append(self._objects + asked.source, asked.content, binary=True)

    def save(self, asked: Operation) -> None:
        path = Path(self._files + asked.source)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_bytes(asked.content)
        new.replace(path)

    def copy_up(self, asked: Operation) -> None:
        file.copy(self._files + asked.source, self._objects + asked.target)

    def copy_down(self, asked: Operation) -> None:
        file.copy(self._objects + asked.source, self._files + asked.target)

    def copy_inside(self, asked: Operation) -> None:
        file.copy(self._objects + asked.source, self._objects + asked.target)

    def tree_up(self, asked: Operation) -> None:
        file.copy_parallel(self._files + asked.source, self._objects + asked.target)

    def tree_down(self, asked: Operation) -> None:
        file.copy_parallel(self._objects + asked.source, self._files + asked.target)

    def rename(self, asked: Operation) -> None:
        file.rename(self._objects + asked.source, self._objects + asked.target)

    move_inside = rename

    def move_up(self, asked: Operation) -> None:
        file.rename(self._files + asked.source, self._objects + asked.target)

    def move_down(self, asked: Operation) -> None:
        file.rename(self._objects + asked.source, self._files + asked.target)

    def remove(self, asked: Operation) -> None:
        file.remove(self._objects + asked.source)

    def remove_tree(self, asked: Operation) -> None:
        file.remove(self._objects + asked.source, recursive=True)

    def read(self, asked: Operation) -> str:
        return digest(file.read(self._objects + asked.source, binary=True))

    def read_pieces(self, asked: Operation) -> str:
        with file.File(self._objects + asked.source, "rb") as opened:
            return digest(b"".join(iter(lambda: opened.read(PIECE), b"")))

    def read_end(self, asked: Operation) -> str:
        with file.File(self._objects + asked.source, "rb") as opened:
            opened.seek(opened.size() // 2)
            return str(len(opened.read()))

    def list(self, asked: Operation) -> str:
        return ",".join(file.list_directory(self._objects + asked.source))

    def exists(self, asked: Operation) -> str:
        return str(file.exists(self._objects + asked.source))


def operate(task: dict[str, Any]) -> None:
    """Performs operations of `path_mapping.file` up to the first that fails."""
    vars(file_tree)["open_store"] = lambda environ, root: store_of(task)  # with small parts
    calls = Calls(task["bucket"], task["base"])
    for operation in task["operations"]:
        try:
            say(result=calls(Operation(*operation)))
        except (PathMappingError, OSError) as error:
            say(error=str(error))
            return


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    operate(given) if given["way"] == "mox" else move(given)
