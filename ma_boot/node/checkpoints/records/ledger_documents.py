"""The ledger of a job in OBS, read and written by node 0."""

from __future__ import annotations

import re
from itertools import islice

from ma_boot.node.checkpoints.records.documents import Documents
from ma_boot.report.job_ledger import (
    MOST_BYTES,
    MOST_ENTRIES,
    EntryKey,
    JobLedger,
    LedgerEntry,
    entry_document,
    read_entry,
    surplus,
)

# Keys of a listing that are looked at: foreign ones among them must not hide all entries.
_MOST_LISTED = 5 * MOST_ENTRIES
# Jobs of one place that are read.
MOST_JOBS = 20


class LedgerDocuments:
    """Documents of one job's ledger; each method raises `StoreError`, and `Cancelled`."""

    def __init__(self, documents: Documents, directory: str) -> None:
        """`directory` is that of a job, by `job_directory`."""
        self._documents = documents
        self._prefix = f"{documents.place.ledger}{directory}/"

    def read(self) -> JobLedger:
        """Reads the newest entries; documents that are no entries are ignored."""
        keys = sorted(self._keys(), reverse=True)[:MOST_ENTRIES]
        contents = self._documents.read_all([f"{self._prefix}{key}" for key in keys], MOST_BYTES)
        return JobLedger.of(read_entry(key, content) for key, content in zip(keys, contents))

    def write(self, entry: LedgerEntry) -> None:
        """Writes an entry, whose key no other process writes."""
        self._documents.write(f"{self._prefix}{entry.key}", entry_document(entry))

    def trim(self) -> None:
        """Removes the oldest entries if there are too many."""
        for key in surplus(self._keys()):
            self._documents.delete(f"{self._prefix}{key}")

    def _keys(self) -> list[EntryKey]:
        listed = islice(self._documents.objects(self._prefix), _MOST_LISTED)
        names = (stored.key[len(self._prefix) :] for stored in listed if stored.size <= MOST_BYTES)
        return [key for key in map(EntryKey.parse, names) if key is not None]


def read_ledgers(documents: Documents) -> dict[str, JobLedger]:
    """Reads the ledgers of the jobs at a place, by the names of their directories.

    Raises `StoreError`, and `Cancelled`.
    """
    prefix = documents.place.ledger
    keys = islice(documents.keys(prefix), MOST_JOBS * _MOST_LISTED)
    matches = (re.match(r"([0-9a-f]{16})/", key[len(prefix) :]) for key in keys)
    names = list(dict.fromkeys(match[1] for match in matches if match is not None))[:MOST_JOBS]
    ledgers = {name: LedgerDocuments(documents, name).read() for name in names}
    return {name: ledger for name, ledger in ledgers.items() if ledger.entries}
