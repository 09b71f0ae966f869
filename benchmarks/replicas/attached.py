"""An event stream at one gateway, of a session that another one owns: the lag of its words, and whether all are there.

A word's lag is from the model having written it until the program has read it; the same at the owner stands beside it.
"""

import asyncio
import re
from collections.abc import Sequence

from benchmarks.figures import Figure, Options, percentile
from benchmarks.replicas.model import Asked
from benchmarks.replicas.programs import Follower, Stage, open_programs
from tests.postgres import DURABLE, running

WORDS, PAUSE = 100, 0.03
"""Words of an answer, and seconds between two of them."""
ANSWERS = 6
LAG_BOUND = 150.0
"""Milliseconds, of 95 words in a hundred."""
ANN = "tui:ann"
_WORD = re.compile(r"w\d+ ")


async def measure_attached(options: Options) -> list[Figure]:
    """Two replicas, one person with a program at each."""
    lags: dict[str, list[float]] = {"owner": [], "other": []}
    lost = {"owner": 0, "other": 0}
    with running(settings=DURABLE) as server:
        async with open_programs(2, server, [ANN]) as stage:
            await stage.gateways[0].say(ANN, "hello")
            await stage.all_done()
            stage.model.pieces, stage.model.pause = [f"w{number} " for number in range(WORDS)], PAUSE
            for number in range(options.times(ANSWERS)):
                for place, (found, missing) in (await _answer(stage, f"a{number}")).items():
                    lags[place] += found
                    lost[place] += missing
    name = "words of a session"
    figures = []
    for place, text in (("owner", "at its owner"), ("other", "at the other replica")):
        bound = LAG_BOUND if place == "other" else None
        detail = {"words": len(lags[place]), "max": round(max(lags[place], default=0.0), 2)}
        figures += [
            Figure(f"{name}, {text}: lost or out of place", "words", lost[place], 0, detail=detail),
            Figure(f"{name}, {text}: lag, p50", "ms", percentile(lags[place], 50)),
            Figure(f"{name}, {text}: lag, p95", "ms", percentile(lags[place], 95), bound),
        ]
    return figures


async def _answer(stage: Stage, name: str) -> dict[str, tuple[list[float], int]]:
    """One answer; of each program the lags, and how many words it missed or read elsewhere than they were written."""
    owner = (await stage.owner(ANN)).gateway
    other = stage.other(owner)
    async with owner.following(ANN) as near, other.following(ANN) as far:
        await near.first("")
        await far.first("")
        before = len(stage.model.asked)
        await owner.say(ANN, name)
        asked = await stage.model.asked_for(name, before)
        await asyncio.gather(near.first("TurnFinished"), far.first("TurnFinished"))
        return {"owner": _lags(asked, near), "other": _lags(asked, far)}


def _lags(asked: Asked, follower: Follower) -> tuple[list[float], int]:
    text, lags = "", list[float]()
    for seen in follower.seen:
        if seen.name == "StreamRestarted":
            text, lags = "", []
        if seen.name == "TextStreamed":
            text += seen.event["text"]
            whole = len(_WORD.findall(text))
            lags += [1000 * (seen.at - asked.written[number]) for number in range(len(lags), min(whole, WORDS))]
    return lags, _missing(text.split())


def _missing(words: Sequence[str]) -> int:
    """Return how many words are not where the model wrote them; those beyond its last one count, too."""
    expected = [f"w{number}" for number in range(WORDS)]
    same = sum(one == other for one, other in zip(words, expected, strict=False))
    return max(len(words), WORDS) - same
