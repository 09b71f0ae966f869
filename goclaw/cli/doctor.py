"""`goclaw doctor`."""

import asyncio
from dataclasses import asdict
from typing import Annotated

import orjson
import typer

from goclaw.cli.common import load
from goclaw.cli.frame import say
from goclaw.doctor import examine

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def doctor(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the model.")] = False,
) -> None:
    """Try everything out and say what to mend. Exit code 1 when something is broken.

    The model is asked for one word, which may cost a little; --offline leaves that out.
    """
    findings = asyncio.run(examine(load(context), say, offline=offline))
    if as_json:
        print(orjson.dumps([asdict(finding) for finding in findings]).decode())
    else:
        print("\n".join(finding.line() for finding in findings))
    if any(finding.verdict == "problem" for finding in findings):
        raise typer.Exit(1)
