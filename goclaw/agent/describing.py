"""Descriptions of agents for people on the command line."""

from collections.abc import Iterator
from typing import Any

from goclaw.agent.kinds import Kind, Kinds
from goclaw.config.agents import RouteSettings
from goclaw.config.exports import ExportSettings


def all_agents(kinds: Kinds) -> list[Kind]:
    """Return every agent, `main` first."""
    found = (kinds.of(name) for name in [*kinds.answering, *([] if kinds.config.agents.kinds else ["general"])])
    return [kind for kind in found if kind]


def line(kind: Kind) -> str:
    """Return one of them in a list."""
    return f"{kind.name:16} {' '.join(kind.settings.description.split())}".rstrip()


def details(kind: Kind, routes: list[RouteSettings]) -> str:
    """Return everything about one; `routes`: those that lead to it."""
    settings = kind.settings
    tools = "every tool" if settings.tools is None else ", ".join(settings.tools) or "none"
    lines = [
        kind.name,
        *([settings.description.strip()] if settings.description.strip() else []),
        "",
        f"Models: {', then '.join(settings.chain) or 'those of models.agent'}",
        f"Tools: {tools}",
        *(f"{name}: {text}" for name, text in kind.rules.lines()),
        *(f"Answers {_condition(route)}" for route in routes),
    ]
    for name, export in settings.exports.items():
        lines += ["", *_export(name, export)]
    if settings.prompt.strip():
        lines += ["", "What it is told:", "", settings.prompt.strip()]
    return "\n".join(lines)


def as_json(kind: Kind, routes: list[RouteSettings]) -> dict[str, Any]:
    """Return the same for programs."""
    known: dict[str, Any] = {"name": kind.name, **kind.settings.model_dump(mode="json")}
    return {**known, "routes": [route.model_dump(mode="json", exclude={"agent"}) for route in routes]}


def _condition(route: RouteSettings) -> str:
    parts = [
        f"/{route.command}" if route.command else "",
        f"for {', '.join(route.user)}" if route.user else "",
        f"in {', '.join(route.chat)}" if route.chat else "",
    ]
    return " ".join(filter(None, parts)) or "whoever no other route leads elsewhere"


def _export(name: str, export: ExportSettings) -> Iterator[str]:
    yield f"Exports {name}: {export.description}".rstrip(": ")
    for tool, settings in export.tools.items():
        through = f" (calls {settings.passthrough.tool})" if settings.passthrough else ""
        yield f"- {tool}: {' '.join(settings.description.split())}{through}"
    if export.include:
        yield f"- also {', '.join(export.include)}"
    if export.publish_to:
        yield f"- offered to {', '.join(export.publish_to)}"
