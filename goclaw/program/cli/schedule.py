"""`goclaw schedule …`: what `/schedule` does, through the daemon that runs, else on the state folder alone.

Without a daemon a schedule that is run goes on at the next start, and nothing that is due begins.
"""

import asyncio
import shlex
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import typer

from goclaw.common.auth.users import login_name
from goclaw.errors import StateError
from goclaw.program.cli.base import show
from goclaw.program.cli.options import AsJson, command_group, load

app = command_group("Add, list, pause and run scheduled messages and tasks.")

REFUSALS = ("Not done: ", "Not allowed: ")
"""The beginnings of answers to orders that were not carried out (`gateway.commands.schedules`)."""

Name = Annotated[str, typer.Argument(help="The name, as in `goclaw schedule list`.")]
User = Annotated[
    str, typer.Option(help="The user to act for, a key of users.json; default: the owner of the state folder.")
]


class CatchUp(StrEnum):
    """The treatment of times that were missed."""

    LAST = "last"
    ALL = "all"
    NONE = "none"


@app.command()
def add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A new name: letters, digits, `-` and `_`.")],
    at: Annotated[str, typer.Option(help="Once: 20m, 8:00, `tomorrow 8:00` or 2026-12-24T18:00.")] = "",
    every: Annotated[str, typer.Option(help="Repeatedly: 30m, 2h, 1d.")] = "",
    cron: Annotated[str, typer.Option(help="Five fields, as in `30 8 * * 1-5`.")] = "",
    message: Annotated[str, typer.Option(help="A text that is sent word for word.")] = "",
    task: Annotated[str, typer.Option(help="A task for an agent, whose answer is sent.")] = "",
    to: Annotated[str, typer.Option(help="Where the message or answer goes: telegram:<id>, or notify:<name>.")] = "",
    session: Annotated[
        str, typer.Option(help="The conversation of the task (fresh, same or a key) or of the message.")
    ] = "",
    user: User = "",
    agent: Annotated[str, typer.Option(help="The agent that does the task.")] = "",
    model: Annotated[str, typer.Option(help="The model that does the task.")] = "",
    tools: Annotated[str, typer.Option(help="The only tools a task may use: read,search or tag:network.")] = "",
    catch_up: Annotated[CatchUp, typer.Option(help="Which missed times to catch up on.")] = CatchUp.LAST,
    ask: Annotated[bool, typer.Option("--ask", help="Ask in the chat for approval of calls that need it.")] = False,
    budget: Annotated[float | None, typer.Option(help="Limit for one run, in US dollars.")] = None,
    time_limit: Annotated[str, typer.Option(help="Limit for one run: 10m.")] = "",
) -> None:
    """Have a message said, or a task done, at a time."""
    given = {
        "at": at,
        "every": every,
        "cron": cron,
        "message": message,
        "task": task,
        "to": to,
        "session": session,
        "user": user,
        "agent": agent,
        "model": model,
        "tools": tools,
        "catch-up": catch_up.value,
        "budget": "" if budget is None else str(budget),
        "time-limit": time_limit,
    }
    _order(context, "add", name, {option: value for option, value in given.items() if value}, flag="ask" if ask else "")


@app.command("list")
def list_(context: typer.Context, user: User = "", as_json: AsJson = False) -> None:
    """Print the schedules, the next one first: of all people, or of one."""
    _order(context, "list", "", {"user": user}, flag="json" if as_json else "")


@app.command()
def pause(context: typer.Context, name: Name, user: User = "") -> None:
    """Keep a schedule from running until it is resumed."""
    _order(context, "pause", name, {"user": user})


@app.command()
def resume(context: typer.Context, name: Name, user: User = "") -> None:
    """Have a paused or stopped schedule go on."""
    _order(context, "resume", name, {"user": user})


@app.command()
def run(context: typer.Context, name: Name, user: User = "") -> None:
    """Run a schedule now, in addition to its times."""
    _order(context, "run", name, {"user": user})


@app.command()
def remove(context: typer.Context, name: Name, user: User = "") -> None:
    """Forget a schedule and its runs."""
    _order(context, "remove", name, {"user": user})


@app.command()
def timezone(
    context: typer.Context, zone: Annotated[str, typer.Argument(help="An IANA name: Europe/Berlin.")], user: User = ""
) -> None:
    """Set your time zone, and move what was made before you did."""
    _order(context, "timezone", zone, {"user": user})


@app.command()
def runs(context: typer.Context, name: Name, user: User = "", as_json: AsJson = False) -> None:
    """Print the latest runs of a schedule, with their results and costs."""
    _order(context, "runs", name, {"user": user}, flag="json" if as_json else "")


def _order(context: typer.Context, action: str, name: str, options: Mapping[str, str], flag: str = "") -> None:
    """Give the order as a slash command and print the answer.

    Raises:
        StateError: it was not carried out.
    """
    from goclaw.program.cli.send import send_and_wait  # help and completions do without the daemon's client

    words = [action, *([name] if name else []), *(f"--{key}={value}" for key, value in options.items() if value)]
    words += [f"--{flag}"] if flag else []
    loaded = load(context)
    command = f"/schedule {shlex.join(words)}"
    answer, _ = asyncio.run(send_and_wait(loaded.config, command, f"tui:{login_name()}", packaged=loaded.packaged))
    if refusal := next((each for each in REFUSALS if answer.startswith(each)), ""):
        raise StateError(answer.removeprefix(refusal))
    show(answer)
