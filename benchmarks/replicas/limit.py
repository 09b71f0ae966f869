"""How many turns a second R replicas on one Postgres can do: a model of the figures, and where it ends.

Each wall alone, in turns a second, for replicas with a core each and P cores of Postgres:

    replicas      R * 1000 / g                   g: ms of a gateway's CPU per turn
    Postgres      (1000 * P - R * i) / p         p: ms of Postgres's CPU per turn, i: ms a second per idle replica
    commits       c * R * a / t                  c: commits a second of Postgres with a NOTIFY each, over all clients
    WAL           W / w                          W: bytes a second of the disk, w: bytes of WAL per turn

The lowest is the limit. `a` is how many turns one commit has in it: a gateway commits together what came while it
committed, so it rises under load and the third wall moves away; a = 1 is the worst. Connections bound the replicas
themselves: (max_connections - 3) / k.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.figures import Json

MAX_CONNECTIONS, RESERVED = 100, 3
"""Postgres's defaults: of so many connections these are a superuser's."""


@dataclass(frozen=True)
class Inputs:
    """Figures of one run."""

    gateway: float
    """Milliseconds of a gateway's CPU per turn."""
    postgres: float
    """Milliseconds of Postgres's CPU per turn."""
    idle: float
    """Milliseconds a second of Postgres's CPU per idle replica."""
    commits: float
    """Commits of one person's turn."""
    notified_commits: float
    """Commits a second that Postgres can do at most, each with a NOTIFY."""
    wal: float
    """Bytes per turn."""
    connections: float
    """Of one replica."""

    @property
    def most_replicas(self) -> int:
        """Replicas that Postgres's default number of connections admits."""
        return int((MAX_CONNECTIONS - RESERVED) / self.connections)

    def walls(self, replicas: int, cores: int) -> Mapping[str, float]:
        """Return each wall in turns a second, for replicas with a core each and so many cores of Postgres."""
        return {
            "the replicas' CPU": 1000 * replicas / self.gateway,
            "Postgres's CPU": max(0.0, 1000 * cores - replicas * self.idle) / self.postgres,
            "commits, one by one": self.notified_commits / self.commits,
        }

    def limit(self, replicas: int, cores: int) -> tuple[str, float]:
        """Return the lowest wall and where it is."""
        walls = self.walls(replicas, cores)
        lowest = min(walls, key=lambda name: walls[name])
        return lowest, walls[lowest]


def inputs_of(report: Json) -> Inputs:
    """Take the inputs from a report of the benchmarks of replicas.

    Raises:
        KeyError: a benchmark has failed, or was not run.
    """
    measured = {figure["figure"]: float(figure["measured"]) for figure in report["figures"]}
    return Inputs(
        gateway=measured["1 replica: CPU of the gateways per turn"],
        postgres=measured["1 replica: CPU of Postgres per turn"],
        idle=measured["4 replicas: CPU of Postgres per idle replica"],
        commits=measured["1 replica: commits of one person's turn"],
        notified_commits=measured["Postgres alone: a commit with a NOTIFY"],
        wal=measured["1 replica: WAL per turn"],
        connections=measured["1 replica: connections of a replica"],
    )
