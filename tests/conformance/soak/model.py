"""State of OBS and of the disk that is expected after each round of a soak. Pure: contents are known by their digests."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence

Tree = Mapping[str, str]  # names, or keys, and the digests of their contents


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def is_named(key: str, named: Sequence[str]) -> bool:
    """Tells whether a failure names the key, or is one of the transfer, which begins with `*`."""
    return any(key in line or line.startswith("* ") for line in named)


class WriterModel:
    """The files of all writers, each with a prefix in OBS; several may share one. Every route has `delete`."""

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        self.prefixes = prefixes
        self.files: dict[str, dict[str, str]] = {directory: {} for directory in prefixes}
        self._ever: dict[str, set[str]] = defaultdict(set)
        self._foreign: dict[str, str] = {}
        self._doubtful: set[str] = set()

    def key(self, directory: str, name: str) -> str:
        return self.prefixes[directory] + name

    def begins(self, directory: str, name: str, content: str) -> None:
        """The file gets this content; until `has` it may still have another one, or be torn."""
        self._ever[self.key(directory, name)].add(content)

    def has(self, directory: str, name: str, content: str) -> None:
        self.files[directory][name] = content

    def removed(self, directory: str, name: str) -> None:
        del self.files[directory][name]

    def overwritten(self, key: str, content: str) -> None:
        """Another client has stored this object."""
        self._foreign[key] = content
        self._ever[key].add(content)

    def deleted(self, key: str) -> None:
        """Another client has deleted this object."""
        self._foreign.pop(key, None)

    def torn(self, objects: Tree, named: Sequence[str]) -> list[str]:
        """Objects that were never written: always an error."""
        return [
            f"{key} has a content that nobody wrote"
            for key, content in objects.items()
            if key.startswith(tuple(self.prefixes.values()))
            and content not in self._ever[key]
            and not is_named(key, named)
            and key not in self._doubtful
        ]

    def problems(self, objects: Tree, named: Sequence[str], notices: Sequence[str]) -> list[str]:
        """Returns the problems after the uploads of all writers; `named` are failures, `notices` messages."""
        owned: dict[str, set[str]] = defaultdict(set)
        for directory, files in self.files.items():
            for name, content in files.items():
                owned[self.key(directory, name)].add(content)
        wrong = self.torn(objects, named)
        for key, contents in owned.items():
            if objects.get(key) in contents:
                self._doubtful.discard(key)
                self._foreign.pop(key, None)
            elif is_named(key, named):
                self._doubtful.add(key)
            else:
                wrong.append(f"{key} is {'old' if key in objects else 'missing'}, and not named")
        for key, content in self._foreign.items():
            if key not in owned and objects.get(key) != content:
                wrong.append(f"{key}, which somebody else has stored, was deleted")
        if not named:
            wrong += self._not_deleted(objects, owned, notices)
        return wrong

    def _not_deleted(self, objects: Tree, owned: Mapping[str, set[str]], notices: Sequence[str]) -> list[str]:
        """Objects of removed files: they are gone, unless another client has changed them, which is reported."""
        wrong = []
        for key in objects:
            if key in owned or key in self._doubtful or not key.startswith(tuple(self.prefixes.values())):
                continue
            if key not in self._foreign:
                wrong.append(f"{key} is still there, though its file was removed")
            elif "theirs" not in key and not is_named(key.partition("/")[2], notices):
                wrong.append(f"{key} was kept, as somebody has changed it, and nobody says so")
        return wrong


class ReaderModel:
    """The target of a download with `delete`, and what its user does there."""

    def __init__(self) -> None:
        self._own: dict[str, str] = {}

    def changed(self, name: str, content: str) -> None:
        """The user has made or changed this file."""
        self._own[name] = content

    def removed(self, name: str) -> None:
        """The user has removed this file."""
        self._own.pop(name, None)

    def problems(self, here: Tree, objects: Tree, named: Sequence[str]) -> list[str]:
        wrong = []
        for key, content in objects.items():
            if here.get(key) == content:
                self._own.pop(key, None)
            elif not is_named(key, named):
                wrong.append(f"{key} is {'another one' if key in here else 'missing'} here, and not named")
        for name, content in here.items():
            if name in objects or is_named(name, named):
                continue
            if self._own.get(name) != content:
                wrong.append(f"{name} is still here, though its object was deleted")
        for name, content in self._own.items():
            if name not in objects and here.get(name) != content:
                wrong.append(f"{name}, which the user has changed, was deleted")
        return wrong
