"""Rules for secrets: credentials in an image's configuration, and the user's own keys anywhere in it.

Only exact values are searched for in files and in the history. Scanners such as trivy and gitleaks know the
forms of foreign credentials. No finding shows a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ma_boot.desk.image.rules.facts import ImageFacts, Pairs, error, some, warning
from ma_boot.platform.modelarts.findings import Finding
from ma_boot.redact import is_secret, masked, without_secret_words, without_secrets

# Characters; a shorter value would be found by chance.
SHORTEST_KEY = 8
OTHER_SCANNERS = (
    "secrets: only the values of keys in this shell's environment were searched for; "
    "`trivy image {}` and gitleaks find credentials by their form"
)
_REMEDY = "build without cache, change the credential, and set it in the job form instead"


def own_keys(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of the user's environment that hold a key, with the values to search for.

    Values of several lines are left out: grep would find each line by itself.
    """
    return {
        name: value
        for name, value in environ.items()
        if is_secret(name, value) and len(value) >= SHORTEST_KEY and "\n" not in value
    }


def keys_in_metadata(facts: ImageFacts, keys: Mapping[str, str]) -> Pairs:
    """Returns the variables whose values are in the metadata of the image, each with the place."""
    texts = {f"ENV {name}": value for name, value in facts.environ.items()}
    texts |= {f"LABEL {name}": value for name, value in facts.labels.items()}
    texts |= {"CMD": "\n".join(facts.command), "ENTRYPOINT": "\n".join(facts.entrypoint)}
    texts["the commands of its layers (docker history)"] = "\n".join(facts.history)
    return tuple((name, place) for name, key in keys.items() for place, text in texts.items() if key in text)


def parse_search(output: str, names: list[str]) -> tuple[Pairs, bool]:
    """Parses the output of `own_keys.sh`: pairs of variable and file, and whether the search is complete.

    `names` are the variables by the numbers of the search.
    """
    lines = [line.split("\t", 2) for line in output.split("\n")]
    found = {(names[int(line[1])], line[2]) for line in lines if line[0] == "found" and len(line) == 3}
    return tuple(sorted(found)), ["end", "ok"] in lines


def own_key_in_image(facts: ImageFacts) -> Iterator[Finding]:
    """No value of a key of the user's environment is in the metadata or in a file of any layer."""
    places: dict[str, list[str]] = {}
    for name, place in facts.exposed_keys:
        places.setdefault(name, []).append(place)
    for name, where in places.items():
        yield error(
            "secret",
            f"the value of your {name} (not shown) is in {some(where)}, visible to all who pull the image",
            f"keep it out of the build context (.dockerignore) and of build arguments; {_REMEDY}",
        )
    if not facts.searched and not facts.refusal:
        yield warning(
            "secret",
            "files were not searched for your keys: the image has no find or no grep, or they failed",
            "search its layers yourself, for example with `trivy image`",
        )


def credential_in_configuration(facts: ImageFacts) -> Iterator[Finding]:
    """No variable, label or word of a command is a credential, by the rule of `redact`."""
    places = [f"ENV {name}" for name, value in masked(facts.environ).items() if value != facts.environ[name]]
    places += [f"LABEL {name}" for name, value in masked(facts.labels).items() if value != facts.labels[name]]
    for instruction, words in (("CMD", facts.command), ("ENTRYPOINT", facts.entrypoint)):
        lines = [" ".join(words), *words]  # a word may itself be a command line of a shell
        if list(words) != without_secret_words(words) or any(without_secrets(line) != line for line in lines):
            places.append(instruction)
    for place in places:
        yield error(
            "secret",
            f"{place} looks like a credential (value not shown), visible to all who pull the image",
            f"remove it, {_REMEDY}",
        )
