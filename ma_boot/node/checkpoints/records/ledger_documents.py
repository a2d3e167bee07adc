"""The ledger of a job in OBS, read and written by node 0."""

from __future__ import annotations

from itertools import islice

from ma_boot.node.checkpoints.records.documents import Documents
from ma_boot.report.job_ledger import (
    MOST_BYTES,
    MOST_ENTRIES,
    EntryKey,
    JobLedger,
    LedgerEntry,
    entry_document,
    job_directory,
    read_entry,
    surplus,
)

# Keys of a listing that are looked at: foreign ones among them must not hide all entries.
_MOST_LISTED = 5 * MOST_ENTRIES


class LedgerDocuments:
    """Documents of one job's ledger; each method raises `StoreError`, and `Cancelled`."""

    def __init__(self, documents: Documents, job: str) -> None:
        self._documents = documents
        self._prefix = f"{documents.place.ledger}{job_directory(job)}/"

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
