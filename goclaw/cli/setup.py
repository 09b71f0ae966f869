"""`goclaw setup`: asks, tries every answer out at once, and writes at the end; see `setup_steps`."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from goclaw.cli.common import options
from goclaw.cli.frame import Options, say
from goclaw.cli.setup_steps import model, telegram, writing
from goclaw.cli.setup_steps.answers import AdminAnswer, Scene, SetupAnswers, read_secret
from goclaw.cli.setup_steps.dialogue import Dialogue
from goclaw.clock import RealClock
from goclaw.config.environment import LOCATION
from goclaw.config.load import Loaded, load_config
from goclaw.errors import ConfigError
from goclaw.net import open_client
from goclaw.records import record
from goclaw.state import running_pid
from goclaw.users import Users

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@record
class Given:
    """Answers given on the command line; empty where there are none."""

    spec: str = ""
    key: str = ""
    token: str = ""
    owner: AdminAnswer | None = None


@app.command()
def setup(
    context: typer.Context,
    spec: Annotated[str, typer.Option("--model", metavar="PROVIDER:NAME", help="The model that shall answer.")] = "",
    key_file: Annotated[Path | None, typer.Option(help="A file with the key of that model's provider.")] = None,
    telegram_token_file: Annotated[Path | None, typer.Option(help="A file with the token of your bot.")] = None,
    owner_id: Annotated[str, typer.Option(metavar="NUMBER", help="Your numeric id in Telegram.")] = "",
    no_input: Annotated[bool, typer.Option("--no-input", help="Ask nothing: only what the options say.")] = False,
) -> None:
    """Connect a model, Telegram and yourself by a few questions.

    Each answer is tried out at once. At the end config.yaml, files in secrets/ and your entry in users.json are
    written; no file that exists is changed. What an option says is not asked for; when it turns out wrong, nothing is
    written and the exit code says so.
    """
    if key_file and not spec:
        raise typer.BadParameter("needs --model, whose key it is", param_hint="--key-file")
    try:
        given = Given(
            spec,
            read_secret(key_file) if key_file else "",
            read_secret(telegram_token_file) if telegram_token_file else "",
            telegram.owner_of(owner_id) if owner_id else None,
        )
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None
    try:
        asyncio.run(_setup(options(context), given, Dialogue(silent=no_input)))
    except KeyboardInterrupt:
        print()
        say("stopped; nothing was written")
        raise typer.Exit(INTERRUPTED) from None


async def _setup(said: Options, given: Given, dialogue: Dialogue) -> None:
    loaded = _load(said)
    place = writing.SetupPaths.of(loaded, said.config or _named())
    writing.check(place, loaded)
    Users.read(place.users)
    if not dialogue.silent:
        dialogue.say("Enter skips a question. Ctrl-C leaves; nothing is written before the end.")
    async with open_client() as http:
        answers = await _ask(Scene(dialogue, loaded, http, RealClock()), given)
    report = writing.write(answers, place, loaded)
    dialogue.say(
        "\n".join(
            _last_lines(report, [*writing.caveats(answers, place, _load(said))], _next_command(said, loaded, report))
        )
    )


async def _ask(scene: Scene, given: Given) -> SetupAnswers:
    chosen = await model.choose_model(scene, given.spec, given.key)
    bot = await telegram.choose_bot(scene, given.token)
    owner = given.owner or await telegram.find_owner(scene, bot)
    return SetupAnswers(chosen, bot, owner, await model.find_ollama(scene))


def _load(said: Options) -> Loaded:
    return load_config(said.config, overrides=said.overrides, may_be_missing=True)


def _named() -> Path | None:
    return Path(os.environ[LOCATION]) if os.environ.get(LOCATION) else None


def _last_lines(report: writing.SetupReport, caveats: Sequence[str], following: str) -> list[str]:
    """Return the last lines."""
    lines = ["", *(["Written:", *(f"   {line}" for line in report.written)] if report.written else ["Nothing new."])]
    if report.left:
        lines += ["", *report.left]
    if caveats:
        lines += ["", *(f"But: {line}." for line in caveats)]
    return [*lines, "", f"Next: `{following}`"]


def _next_command(said: Options, loaded: Loaded, report: writing.SetupReport) -> str:
    """Return the command that puts the answers into force."""
    config = f" --config {said.config}" if said.config else ""
    has_news = bool(report.written or report.left)
    return f"goclaw{config} restart" if has_news and running_pid(loaded.config) else f"goclaw{config}"
