"""A conversation of forty turns at one window: none of its requests may be refused, and room is made in time."""

import sys
from pathlib import Path
from typing import Any

from tests.acceptance.waiting import clock
from tests.real_model.gateway import SHORT_ANSWER, TURN_SECONDS, Stage, from_cache, reuse, rounded, stage
from tests.real_model.server import CODER, real_server

TURNS = 40
WINDOWS = (4_096, 8_192, 32_768)
ROOM_IS_MADE = 8_192
"""Up to this window forty turns do not fit."""
NAMES = ("Ada", "Bruno", "Clara", "Dmitri", "Elif", "Femi", "Greta", "Hugo", "Ines", "Jonas")
THINGS = ("violin", "tent", "printer", "canoe", "ladder", "globe", "sewing machine", "telescope")
PLACES = ("the cellar", "the blue cupboard", "the attic", "the shed behind the house", "the hall")


def saying(turn: int) -> str:
    """Return what the person says in a turn: some 150 tokens with facts that no other turn has, and a question."""
    facts = [
        f"{NAMES[(turn + each) % len(NAMES)]} has {THINGS[(turn * 3 + each) % 8]} number {turn * 10 + each} "
        f"in {PLACES[(turn + 2 * each) % len(PLACES)]}, bought for {turn * 37 + each * 11} euros."
        for each in range(5)
    ]
    owner = NAMES[turn % len(NAMES)]
    return f"Note {turn}. {' '.join(facts)} In one short sentence and without a tool: what does {owner} have?"


async def talk(folder: Path, window: int, turns: int = TURNS) -> dict[str, Any]:
    """Hold the conversation; return what it cost and what failed."""
    began = clock.monotonic()
    async with real_server(CODER, window, folder / "server.log") as server:
        async with stage(folder / "home", server, max_output=SHORT_ANSWER) as play:
            failed = [line for turn in range(1, turns + 1) for line in await _turn(play, turn)]
            report = _report(play, window, turns)
            play.line.save(folder / "exchanges")
    problems = failed + [f"refused: {text}" for text in report["refusals"]]
    if window <= ROOM_IS_MADE and turns >= TURNS and not report["compactions"]:
        problems.append("room was never made")
    return {"window": window, **report, "seconds": round(clock.monotonic() - began), "problems": problems}


async def _turn(play: Stage, turn: int) -> list[str]:
    try:
        said = await play.send(saying(turn))
    except TimeoutError:
        return [f"turn {turn} took longer than {TURN_SECONDS:.0f} s"]
    sys.stdout.write(f"turn {turn}: {said.seconds:.0f} s, {said.out.strip()[:100]!r}\n")
    sys.stdout.flush()
    if said.code or not said.out.strip():
        return [f"turn {turn} ended with {said.code}: {(said.out + said.err).strip()[-300:]}"]
    return []


def _report(play: Stage, window: int, turns: int) -> dict[str, Any]:
    chats = play.line.chats
    whole = [each.timings["cache_n"] + each.timings["prompt_n"] for each in chats if each.timings]
    return {
        "turns": turns,
        "requests": len(chats),
        "refusals": [each.answer.decode(errors="replace")[:300] for each in play.line.invalid],
        "compactions": play.compactions(),
        "longest_prompt": max(whole, default=0),
        "prefix_kept": rounded(reuse(chats)),
        "from_cache": rounded(from_cache(chats)),
    }
