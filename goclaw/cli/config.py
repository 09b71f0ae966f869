"""`goclaw config check|show|schema|example`."""

import json
from collections.abc import Iterable
from typing import Annotated

import typer

from goclaw.cli.common import load, spelling
from goclaw.cli.frame import say
from goclaw.cli.review import shared
from goclaw.config.document import effective, example, markdown
from goclaw.config.files import shown_path
from goclaw.config.publishing import hindrances
from goclaw.config.schema import Config
from goclaw.doctor.security import weak_spots
from goclaw.llm.open import check_caching
from goclaw.users import Users

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Check, show and explain the configuration.",
)


@app.command()
def check(context: typer.Context) -> None:
    """Say whether it can be used, what is weak, and what is shared with whom."""
    loaded = load(context)
    check_caching(loaded.config)
    path = loaded.config.users_path
    users = Users.read(path).all()
    for warning in spelling(loaded, users):
        say(f"warning: {warning}")
    for place, why in hindrances(loaded.config):
        say(f"warning: {place}: {why}")
    print(f"{shown_path(loaded.path)}: fine" if loaded.path else "no configuration file; the defaults are in force")
    print(f"{shown_path(path)}: fine" if path.exists() else f"{shown_path(path)}: no such file; nobody is listed")
    _section("Weak", (f"{spot.text}\n    → {spot.remedy}" for spot in weak_spots(loaded, users)))
    _section("Shared", shared(loaded.config, users))


@app.command()
def show(context: typer.Context) -> None:
    """Print the configuration in force, secrets hidden, and where each value was set."""
    loaded = load(context)
    print(effective(loaded.config, loaded.origin), end="")


@app.command()
def schema(
    markdown_: Annotated[bool, typer.Option("--markdown", help="Print docs/configuration.md instead.")] = False,
) -> None:
    """Print the JSON Schema of config.yaml, for editors."""
    if markdown_:
        print(markdown(), end="")
    else:
        print(json.dumps(Config.model_json_schema(), indent=2, ensure_ascii=False))


@app.command("example")
def example_() -> None:
    """Print a config.yaml with every key, its meaning and its default."""
    print(example(), end="")


def _section(title: str, lines: Iterable[str]) -> None:
    found = list(lines)
    print(f"{title}:" if found else f"{title}: nothing")
    for line in found:
        print(f"  {line}")
