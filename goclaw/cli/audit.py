"""`goclaw audit`: who did what, and by which rule it was allowed."""

import sys
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import orjson
import typer

from goclaw.audit import audit_path, read_audit
from goclaw.cli.common import load
from goclaw.cli.frame import say, show
from goclaw.clock import RealClock

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def audit(
    context: typer.Context,
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many entries from the end.")] = 50,
    actor: Annotated[str, typer.Option(metavar="KEY", help="Only of this person: telegram:5, tui:ann.")] = "",
    action: Annotated[str, typer.Option(metavar="NAME", help="Only of this kind: tool.use, command.run …")] = "",
    about: Annotated[str, typer.Option(metavar="NAME", help="Only about this tool, command, session …")] = "",
    tag: Annotated[str, typer.Option(metavar="TAG", help="Only about tools with this tag: filesystem, shell …")] = "",
    denied: Annotated[bool, typer.Option("--denied", help="Only what was not allowed.")] = False,
    hours: Annotated[float, typer.Option(min=0, help="Only of the last so many hours; 0: all.")] = 0,
) -> None:
    """Show who did what, by which rule, and how it ended.

    A terminal gets lines to read, a pipe the JSON of the file.
    """
    path = audit_path(load(context, packages=False).config)
    since = RealClock().now() - hours * 3600 if hours else 0.0

    def wanted(entry: Mapping[str, Any]) -> bool:
        return (
            actor in ("", entry.get("actor"))
            and action in ("", entry.get("action"))
            and about in ("", entry.get("object"), entry.get("where"))
            and (not tag or tag in entry.get("tags", ()))
            and not (denied and entry.get("allowed"))
            and _when(entry).timestamp() >= since
        )

    found = deque(filter(wanted, read_audit(path)), maxlen=lines)
    for entry in found:
        show(_for_people(entry) if sys.stdout.isatty() else orjson.dumps(entry).decode())
    if not found:
        say(f"nothing of that kind in {path}")


def _for_people(entry: Mapping[str, Any]) -> str:
    who = " for ".join([str(entry.get("actor", "")), *map(str, entry.get("behalf", ()))])
    verdict = "" if entry.get("allowed") else "DENIED "
    words = [f"{_when(entry):%Y-%m-%d %H:%M:%S}", who, f"{verdict}{entry.get('action')} {entry.get('object')}"]
    for name, before in (("result", "→"), ("where", "in"), ("rule", "by"), ("detail", "|")):
        if value := entry.get(name):
            words.append(f"{before} {value}")
    return "  ".join(words)


def _when(entry: Mapping[str, Any]) -> datetime:
    try:
        return datetime.fromisoformat(str(entry.get("at"))).astimezone()
    except ValueError:
        return datetime.fromtimestamp(0).astimezone()
