"""The tasks, given to the product and to a minimal request on one server: what is done, and who was at fault."""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from goclaw.errors import ModelError
from tests.acceptance.waiting import clock
from tests.llm.asking import model_ports
from tests.llm.llama_server import open_llama
from tests.real_model.gateway import TURN_SECONDS, from_cache, reuse, rounded, stage
from tests.real_model.minimal import converse
from tests.real_model.recorder import Exchange, Recorder, recorder
from tests.real_model.server import CODER, TEMPLATE, RealServer, real_server, tokens_of
from tests.real_model.tasks import TASKS, Task, lay

WINDOW = 8_192
LEAST_DONE = 8
"""Tasks that the product has to do, of fourteen."""
LEAST_AHEAD = 2
"""Tasks that it has to do more than the minimal request."""
LEAST_REUSE = 0.95
"""Share of a turn's earlier prompts that its later requests find in the server's cache."""
MOST_FIXED = 250
"""Tokens of the words that stand in each request: the prompt and the descriptions of the tools."""
ANSWER_KEPT = 600
"""Characters of an answer in the report."""
MARKS = re.compile(r"</?(system-reminder|material|context|think|tools?|tool_call|tool_response)\b|\[TOOL_CALLS\]")
"""What only the window and the wire may have: ours, and those that models write around calls and thoughts."""
LOOKS_LIKE_A_CALL = re.compile(r"""["']name["']\s*:\s*["'][\w.]+["']|<(tool_call|tools|function)\b|\[TOOL_CALLS\]""")


class Fault(StrEnum):
    """Who kept a task from being done."""

    REQUEST = "request"
    """The minimal request did it: what the product says keeps the model from it."""
    READING = "reading"
    """The model wrote what looks like a call, and nothing ran for it."""
    MODEL = "model"


@dataclass
class Outcome:
    """How one task went."""

    task: str
    done: bool
    answer: str
    seconds: float
    exchanges: Sequence[Exchange] = field(repr=False)
    fault: Fault | None = None

    @property
    def has_marks(self) -> bool:
        """Whether the person read a mark that is none of theirs."""
        return MARKS.search(self.answer) is not None

    @property
    def was_unread(self) -> bool:
        """Whether the last answer of the model looks like a call."""
        texts = [exchange.text for exchange in self.exchanges if exchange.ended]
        return bool(texts) and LOOKS_LIKE_A_CALL.search(texts[-1]) is not None

    def report(self) -> dict[str, Any]:
        """Return the row of the report."""
        return {
            "task": self.task,
            "done": self.done,
            "fault": self.fault,
            "marks": self.has_marks,
            "seconds": round(self.seconds),
            "requests": len(self.exchanges),
            "reuse": rounded(reuse(self.exchanges)),
            "answer": self.answer[-ANSWER_KEPT:],
            "wrote": [exchange.text[:ANSWER_KEPT] for exchange in self.exchanges],
        }


async def work(folder: Path, *, structured: bool = False, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Give the tasks to both; return the report.

    Args:
        folder: for the homes, logs and exchanges.
        structured: the server hands calls on as such.
        names: only these tasks; None: all.
    """
    began, tasks = clock.monotonic(), [task for task in TASKS if not names or task.name in names]
    async with real_server(CODER, WINDOW, folder / "server.log", *(TEMPLATE if structured else ())) as server:
        minimal = await by_minimal_request(folder / "minimal", server, tasks)
        product = await by_product(folder / "product", server, tasks)
        fixed = await fixed_text(server, product[0].exchanges[0])
    blame(product, minimal)
    blame(minimal, [])
    exchanges = [exchange for outcome in product for exchange in outcome.exchanges]
    made = {
        "calls": "structured" if structured else "as text",
        "window": WINDOW,
        "fixed_text": fixed,
        "product": sum(each.done for each in product),
        "minimal": sum(each.done for each in minimal),
        "marks": sum(each.has_marks for each in product),
        "reuse_in_turns": _of_turns(product),
        "from_cache": rounded(from_cache(exchanges)),
        "seconds": round(clock.monotonic() - began),
        "by_product": [each.report() for each in product],
        "by_minimal_request": [each.report() for each in minimal],
    }
    return {**made, "problems": shortcomings(made)}


async def fixed_text(server: RealServer, first: Exchange) -> dict[str, int]:
    """Return the tokens of what a request holds before anything is said: its words, and the tools whole, as JSON."""
    request = orjson.loads(first.request)
    prompt, tools = request["messages"][0]["content"], request["tools"]
    words = [prompt, *(tool["function"]["description"] for tool in tools)]
    counts = [await tokens_of(server, text) for text in (prompt, "\n".join(words), *map(json.dumps, tools))]
    return {"prompt": counts[0], "words": counts[1], "schemas": sum(counts[2:])}


def shortcomings(made: dict[str, Any]) -> list[str]:
    """Return in what the figures of a report are below the aims, one line each."""
    found = []
    if made["product"] < LEAST_DONE:
        found.append(f"{made['product']} of {len(TASKS)} tasks done, {LEAST_DONE} wanted")
    if made["product"] < made["minimal"] + LEAST_AHEAD:
        found.append(f"{made['product']} tasks done, a minimal request does {made['minimal']}")
    if made["marks"]:
        found.append(f"{made['marks']} answers with marks")
    if made["fixed_text"]["words"] > MOST_FIXED:
        found.append(f"{made['fixed_text']['words']} tokens of fixed words")
    if (made["reuse_in_turns"] or 1) < LEAST_REUSE:
        found.append(f"{made['reuse_in_turns']} of the prompts of a turn come from the cache")
    return found


def blame(outcomes: Sequence[Outcome], others: Sequence[Outcome]) -> None:
    """Set who was at fault for each task that is not done; `others` had the same reading and another request."""
    done_by_others = {other.task for other in others if other.done}
    for outcome in outcomes:
        if outcome.done:
            continue
        if outcome.was_unread:
            outcome.fault = Fault.READING
        else:
            outcome.fault = Fault.REQUEST if outcome.task in done_by_others else Fault.MODEL


def _of_turns(outcomes: Sequence[Outcome]) -> float | None:
    shares = [share for outcome in outcomes if (share := reuse(outcome.exchanges)) is not None]
    return rounded(min(shares)) if shares else None


async def by_product(folder: Path, server: RealServer, tasks: Sequence[Task]) -> list[Outcome]:
    """Let a daemon do the tasks, each in a conversation of its own."""
    async with stage(folder, server) as play:

        async def say(task: Task) -> str:
            try:
                ran = await play.send(task.said, f"tui:{task.name}")
            except TimeoutError:
                return f"[no answer within {TURN_SECONDS:.0f} s]"
            return ran.out + (f"\n[exit code {ran.code}] {ran.err[-ANSWER_KEPT:]}" if ran.code else "")

        outcomes = [await _try(task, play.home.workspace, play.line, say) for task in tasks]
        play.line.save(folder / "exchanges")
        return outcomes


async def by_minimal_request(folder: Path, server: RealServer, tasks: Sequence[Task]) -> list[Outcome]:
    """Let the model do them alone."""
    workspace = folder / "work"
    workspace.mkdir(parents=True)
    async with recorder(server.url) as line, model_ports() as ports:
        model = open_llama(line.url, ports)

        async def say(task: Task) -> str:
            try:
                return await converse(model, workspace, task.said)
            except (ModelError, TimeoutError) as error:
                return f"[{error!r}]"

        outcomes = [await _try(task, workspace, line, say) for task in tasks]
        line.save(folder / "exchanges")
        return outcomes


async def _try(task: Task, workspace: Path, line: Recorder, say: Callable[[Task], Awaitable[str]]) -> Outcome:
    lay(workspace)
    before, began = len(line.chats), clock.monotonic()
    answer = await say(task)
    done = task.check(workspace, answer)
    return Outcome(task.name, done, answer, clock.monotonic() - began, line.chats[before:])
