"""Findings of `ma_boot doctor` on a simulated node."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.functional.node import Node


def doctor(node: Node, *arguments: str, code: int = 0) -> dict[str, list[dict[str, str]]]:
    """Returns the findings by their check."""
    done = subprocess.run(
        [sys.executable, "-m", "ma_boot", "doctor", "--json", *arguments],
        cwd=node.home, env=node.environ(), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["healthy"] is (code == 0)
    findings: dict[str, list[dict[str, str]]] = {}
    for finding in document["findings"]:
        assert finding["evidence"], finding
        assert finding["severity"] == "ok" or finding["remedy"] or finding["check"].startswith("space"), (
            finding
        )
        findings.setdefault(finding["check"], []).append(finding)
    return findings


def only(findings: dict[str, list[dict[str, str]]], check: str) -> dict[str, str]:
    """Returns the only finding of a check."""
    assert len(findings[check]) == 1, findings[check]
    return findings[check][0]
