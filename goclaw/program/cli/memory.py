"""`goclaw memory search|list|status|reindex`: through the daemon that runs, else on the state folder itself."""

import asyncio
from typing import Annotated, Any

import orjson
import typer

from goclaw.clients.tui.client import attach
from goclaw.common.auth.users import login_name
from goclaw.common.config.schema import Config
from goclaw.common.core.redact import mask
from goclaw.common.core.wire import AskMemory, MemoryFrame
from goclaw.memory.dates import moment
from goclaw.memory.memory_queries import quote_lines
from goclaw.program.cli.base import print_message, show
from goclaw.program.cli.options import AsJson, command_group, load
from goclaw.program.cli.process import listens_soon

app = command_group("Search memory, or rebuild its index.")

User = Annotated[
    str, typer.Option(help="The user to act as, a key of users.json; default: the owner of the state folder.")
]


@app.command()
def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="A question, or words that were probably used.")],
    user: User = "",
    everybody: Annotated[
        bool, typer.Option("--all", help="Search every readable conversation, not only your own.")
    ] = False,
    limit: Annotated[
        int,
        typer.Option(min=0, max=50, help="Maximum passages of each kind; 0: `memory.max_results` notes, 20 quotes."),
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Search notes and conversations."""
    found = asyncio.run(_ask(load(context).config, AskMemory("search", query, user, everybody, limit)))
    if as_json:
        _print_json(found)
        return
    show(f"mode: {found['mode']}")
    for hit in found["notes"]:
        show(f"\n{mask(hit['path'])}:{hit['start']}-{hit['end']}  score {hit['score']['score']:.2f}{_weak(hit)}")
        show("\n".join(line for line in (mask(hit["heading"]), quote_lines(mask(hit["text"]))) if line))
    for quote in found["conversations"]:
        show(f"\n{mask(quote['session'])}  score {quote['score']['score']:.2f}{_weak(quote)}")
        for line in quote["lines"]:
            show(f"#{line['row']} {_when(line['at'])} {mask(line['speaker'])}: {quote_lines(mask(line['text']))}")
    if "left_out" in found:
        print_message(found["left_out"])
    if not found["notes"] and not found["conversations"]:
        show("no results; try other or fewer words")


@app.command("list")
def list_(context: typer.Context, user: User = "", as_json: AsJson = False) -> None:
    """Print the memory files that are searched."""
    files = asyncio.run(_ask(load(context).config, AskMemory("list", user=user)))["files"]
    if as_json:
        _print_json(files)
        return
    width = max((len(file["path"]) for file in files), default=0)
    for file in files:
        show(f"{file['path']:{width}}  {file['size']:>9,} bytes  {file['lines']:>6,} lines  {_when(file['modified'])}")


@app.command()
def status(context: typer.Context, as_json: AsJson = False) -> None:
    """Print how memory stands: what is searched, how, and which vectors are missing."""
    _print(asyncio.run(_ask(load(context).config, AskMemory("status"))), as_json=as_json)


@app.command()
def reindex(context: typer.Context, as_json: AsJson = False) -> None:
    """Make the index anew, from the files and the conversations; a daemon does it in the background."""
    _print(asyncio.run(_ask(load(context).config, AskMemory("reindex"))), as_json=as_json)


def _print(standing: dict[str, Any], *, as_json: bool) -> None:
    lines = standing.pop("lines")
    if as_json:
        _print_json(standing)
        return
    for name, text in lines:
        show(f"{name}: {text}")


async def _ask(config: Config, question: AskMemory) -> dict[str, Any]:
    if await listens_soon(config):
        async with attach(config.socket_path, f"tui:{login_name()}", limit=0) as client:
            return (await client.answer(question, MemoryFrame)).answer
    from goclaw.program.cli.offline import answer  # with a daemon none of it is needed

    return await answer(config, question)


def _weak(found: dict[str, Any]) -> str:
    return "  weak match" if found["score"]["weak"] else ""


def _when(at: float) -> str:
    return f"{moment(at):%Y-%m-%d %H:%M} UTC"


def _print_json(value: Any) -> None:
    from goclaw.program.cli.transcript_formats import mask_json  # the formats for people parse Markdown

    print(orjson.dumps(mask_json(orjson.loads(orjson.dumps(value))), option=orjson.OPT_INDENT_2).decode())
