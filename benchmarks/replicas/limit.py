"""How many turns a second R replicas on one Postgres can do: a model made of the figures of one run.

README.md has the formula and what moves each wall. All walls are in turns a second, for replicas with a core each.
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
    most_commits: float
    """Commits a second that Postgres can do for eight clients, each with a NOTIFY behind it."""
    notified_commits: float
    """The same with the NOTIFY in the commit."""
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
            "CPU of the replicas": 1000 * replicas / self.gateway,
            "CPU of Postgres": max(0.0, 1000 * cores - replicas * self.idle) / self.postgres,
            "commits": self.most_commits / self.commits,
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
        most_commits=measured["Postgres alone: a commit and a NOTIFY behind it"],
        notified_commits=measured["Postgres alone: a commit with a NOTIFY"],
        wal=measured["1 replica: WAL per turn"],
        connections=measured["1 replica: connections of a replica"],
    )


SIZES = ((1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (16, 2), (16, 4))
"""Replicas, and cores of Postgres."""


def limits(report: Json) -> str:
    """Return the lines of README.md: the inputs, and where the lowest wall is at some sizes."""
    try:
        given = inputs_of(report)
    except KeyError as missing:
        return f"The newest run is without {missing}.\n"
    inputs = (
        f"g = {given.gateway:.2f} ms, p = {given.postgres:.2f} ms, i = {given.idle:.1f} ms/s, n = {given.commits:.1f}, "
        f"C = {given.most_commits:,.0f}/s, w = {given.wal / 1000:.1f} kB, k = {given.connections:.0f}"
    )
    lines = [
        f"{inputs}: at most {given.most_replicas} replicas with Postgres's default of {MAX_CONNECTIONS} connections. "
        f"With the NOTIFY inside the commits C would be {given.notified_commits:,.0f}/s.",
        "",
        "| replicas | cores of Postgres | turns/s | the lowest wall | WAL |",
        "|---|---|---|---|---|",
    ]
    for replicas, cores in SIZES:
        wall, turns = given.limit(replicas, cores)
        lines.append(f"| {replicas} | {cores} | {turns:,.0f} | {wall} | {turns * given.wal / 1e6:.1f} MB/s |")
    return "\n".join(lines) + "\n"
