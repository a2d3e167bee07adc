"""The platform in a rehearsal: writes rank tables, moves inputs and outputs of the job form, serves OBS."""

from __future__ import annotations

import contextlib
import os
import secrets
import string
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Callable
from urllib.parse import quote

from ma_boot.desk.rehearsal.faults import Fault
from ma_boot.desk.rehearsal.obs_server.buckets import Buckets
from ma_boot.desk.rehearsal.obs_server.faults import ObsFault
from ma_boot.desk.rehearsal.obs_server.server import ObsServer
from ma_boot.desk.rehearsal.obs_server.signatures import KeyPair
from ma_boot.desk.rehearsal.platform.code_directory import mark_as_obs
from ma_boot.desk.rehearsal.platform.simulated_job import FormChannel, SimulatedJob
from ma_boot.desk.rehearsal.platform.table_writes import TableWrite
from ma_boot.errors import CannotCreate
from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.transfers.progress import (
    FIRST_LINE_SECONDS,
    TransferProgress,
    Update,
    format_bytes,
)
from ma_boot.node.transfers.transfer_errors import to_boot_error
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import Task
from ma_boot.report.journal import Journal
from path_mapping.errors import PathMappingError
from path_mapping.localfs.hash_progress import HashProgress
from path_mapping.mapping.routes import Route
from path_mapping.stores.store import Store
from path_mapping.transfer.periodic import upload_periodically
from path_mapping.transfer.transfer import download, upload
from path_mapping.workers.retry import RetriedStore

_CANCEL_SECONDS = 2.0
_HOST = "127.0.0.1"
_UNLIMITED = 1_000_000
_UNQUOTED = string.punctuation.replace("%", "")  # clients differ in which of these they percent-encode
_OVERRIDING = ("OBS_SECURITY_TOKEN", "OBS_CREDENTIALS_FILE")  # take precedence over our keys


def download_inputs(
    channels: Sequence[FormChannel],
    job: SimulatedJob,
    nodes: Sequence[int],
    store: Store,
    context: ProcessContext,
) -> None:
    """Downloads the inputs to each node, and creates the directories of the outputs; shows the progress.

    Raises:
        BootError: an input cannot be downloaded.
        Stopped: a stop signal arrived.
    """

    # The events of the job are those of its nodes: this transfer is the platform's.
    progress = TransferProgress(
        "inputs of the job form", "download", Journal(context.journal.console), store.hashing
    )

    def fetch(cancel: threading.Event) -> None:
        with progress.shown() as update:
            fetch_all(cancel, update)

    def fetch_all(cancel: threading.Event, update: Update) -> None:
        for node in nodes:
            for channel in channels:
                Path(channel.directory(job, node)).mkdir(parents=True, exist_ok=True)
            routes = [channel.route(job, node) for channel in channels if channel.is_input]
            try:
                download(routes, Path(job.root), RetriedStore(store, cancel), update)
            except PathMappingError as error:
                raise to_boot_error(error, store) from error

    task = Task("inputs of the job form", fetch, context.inbox)
    try:
        task.wait(context.inbox.check, remind=progress.say, first=FIRST_LINE_SECONDS)
    finally:
        task.cancel()
    task.check()


@contextlib.contextmanager
def uploading_outputs(
    channels: Sequence[FormChannel],
    job: SimulatedJob,
    store: Store | None,
    seconds: float,
    inbox: SignalInbox,
    warn: Callable[[str], None],
) -> Iterator[None]:
    """Uploads the outputs every 30 s during the block, and once more after it, for at most `seconds`.

    The outputs of all nodes go to the same place. Failures are only reported: the exit code of the job is
    that of the boot command. A stop signal during the last upload ends it.
    """
    outputs = [channel for channel in channels if not channel.is_input]
    if store is None or not outputs:
        yield
        return
    give_up = threading.Event()
    routes = [[channel.route(job, node) for channel in outputs] for node in range(job.nodes)]
    work = partial(_upload, routes, Path(job.root), store, give_up=give_up, warn=warn)
    task = Task("outputs of the job form", work, inbox)
    try:
        yield
    finally:
        task.cancel()
        before = len(inbox.stops)
        task.wait(lambda: give_up.set() if inbox.stops[before:] else None, time.monotonic() + seconds)
        give_up.set()
        task.wait(lambda: None, time.monotonic() + _CANCEL_SECONDS)


def _upload(
    routes_of_nodes: Sequence[Sequence[Route]],
    base: Path,
    store: Store,
    cancel: threading.Event,
    give_up: threading.Event,
    warn: Callable[[str], None],
) -> None:
    """Uploads outputs as the platform's sidecars do, each for one node: periodically until `cancel` is set.

    The last upload follows, and ends early if `give_up` is set.
    """

    def sidecar(routes: Sequence[Route]) -> None:
        upload_periodically(
            routes, base, RetriedStore(store, cancel), done=lambda moved: None,
            failed=lambda error: warn(f"the platform's upload: {error}"),
        )  # fmt: skip

    with ThreadPoolExecutor(len(routes_of_nodes), "sidecar") as sidecars:
        list(sidecars.map(sidecar, routes_of_nodes))
    cancel.wait()
    for routes in routes_of_nodes:
        try:
            upload(routes, base, RetriedStore(store, give_up))
        except (PathMappingError, OSError) as error:
            warn(f"the platform's last upload: {error}")


def write_table(file: Path, write: TableWrite) -> None:
    """Makes a write to the rank table of a node.

    Raises:
        CannotCreate: the file cannot be written.
    """
    try:
        if write.swapped:
            _swap(file, write.text)
        else:  # in place, as the platform's controller does: a reader may see half of it
            file.write_text(write.text, encoding="utf-8")
    except OSError as error:
        raise CannotCreate(f"cannot write the rank table {file}: {error.strerror}") from error


def _swap(file: Path, text: str) -> None:
    """As Kubernetes updates a mounted ConfigMap: the file is a link, which is switched to a new directory."""
    number = time.monotonic_ns()
    content = file.parent / f"..{number}"
    content.mkdir()
    (content / file.name).write_text(text, encoding="utf-8")
    link = file.parent / f"..link-{number}"
    link.symlink_to(Path(content.name, file.name))
    earlier = os.readlink(file) if file.is_symlink() else None
    os.replace(link, file)
    if earlier is not None:
        old = file.parent / Path(earlier).parent
        with contextlib.suppress(OSError):
            (old / file.name).unlink()
            old.rmdir()


class ServedObs:
    """A running server: its faults, and how a job reaches it."""

    def __init__(self, server: ObsServer, variables: Mapping[str, str]) -> None:
        self._server = server
        self._variables = variables

    def inject(self, faults: Sequence[Fault], note: Callable[[Fault], None]) -> None:
        """Breaks requests from now on, downloads if a fault names no method; `note` is called for each."""
        for fault in faults:
            kind = fault.kind.partition("-")[2]
            method, key = fault.method or "GET", quote(fault.key or "", _UNQUOTED)
            times = fault.times or _UNLIMITED
            self._server.faults.append(ObsFault(kind, method, key, times, partial(note, fault)))

    def reached_from(self, outside: Mapping[str, str]) -> dict[str, str]:
        """An environment that uses this OBS, without a proxy."""
        environ = {name: value for name, value in outside.items() if name not in _OVERRIDING}
        bypassed = [outside.get("no_proxy") or outside.get("NO_PROXY"), _HOST]
        return {**environ, **self._variables, "no_proxy": ",".join(filter(None, bypassed))}


@contextlib.contextmanager
def reporting_checksums(
    hashing: HashProgress, say: Callable[[str], None], seconds: float = FIRST_LINE_SECONDS
) -> Iterator[None]:
    """Prints a line every few `seconds` of the block in which checksums are computed: nodes wait for them."""
    over = threading.Event()

    def watch() -> None:
        before = first = 0  # bytes at the last look, and when these checksums began
        started = time.monotonic()
        while not over.wait(seconds):
            done, expected = hashing.done, hashing.expected
            if before < done < expected:
                text = format_bytes(done - first, expected - first, time.monotonic() - started)
                say(f"checksums of --obs-root: {text}")
            else:
                started, first = time.monotonic(), done
            before = done

    thread = threading.Thread(target=watch, name="checksums", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def served(root: Path, say: Callable[[str], None]) -> Iterator[ServedObs]:
    """Serves `root` during the block, with keys of this run; `say` prints the progress of its checksums.

    Raises:
        CannotCreate: `root` is not a directory and cannot be created.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotCreate(f"--obs-root {root}: {error.strerror}") from error
    mark_as_obs(root)
    keys = KeyPair(secrets.token_hex(10), secrets.token_hex(20))
    buckets = Buckets(root)
    with (
        tempfile.TemporaryDirectory() as parts,
        ObsServer(buckets, Path(parts), [keys]) as server,
        reporting_checksums(buckets.hashing, say),
    ):
        variables = {
            "OBS_ENDPOINT": server.url,
            "S3_ENDPOINT": server.url,
            "S3_USE_HTTPS": "0",
            "S3_VERIFY_SSL": "0",
            "OBS_ACCESS_KEY_ID": keys.access_key,
            "OBS_SECRET_ACCESS_KEY": keys.secret_key,
        }
        yield ServedObs(server, variables)
