"""All that observes a command which starts the ranks of its node itself; imported for such commands only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ma_boot.node.observe.peers import Peers
from ma_boot.node.observe.ranks_of_scripts.leader_watch import LeaderWatch
from ma_boot.node.observe.ranks_of_scripts.rank_census import RankCensus
from ma_boot.node.observe.ranks_of_scripts.script_ranks import ScriptOptions, ScriptRanks
from ma_boot.node.scripts.rank_numbers import JobShape
from ma_boot.node.supervisor.supervise import Observer
from ma_boot.report.journal import Journal
from ma_boot.report.result import RunResult


class ScriptWatch(NamedTuple):
    """Observers of a start command."""

    ranks: ScriptRanks
    leader: LeaderWatch

    @classmethod
    def of(
        cls,
        options: ScriptOptions,
        marker: str,
        shape: JobShape,
        *,
        attempt: int,
        peers: Peers,
        journal: Journal,
    ) -> ScriptWatch:
        """Returns the observers for an attempt of the job, whose processes carry `marker`."""
        census = RankCensus(shape, attempt, peers, journal=journal)
        return cls(ScriptRanks(options, marker, census, journal=journal), LeaderWatch(peers, journal))

    @property
    def observers(self) -> Sequence[Observer]:
        """The observers, in the order of their checks."""
        return self.ranks, self.leader

    def result(self, run: RunResult) -> RunResult:
        """Returns the result of the run with what the observers know of it."""
        return self.ranks.result(run)._replace(is_released=self.leader.is_released)
