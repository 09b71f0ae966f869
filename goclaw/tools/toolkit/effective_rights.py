"""The effective rights of a person: for `goclaw users`, `goclaw config check` and `/whoami`, from one place.

Nothing is concluded from roles or lists here: each tool and command is put to `Access.authorize`, and each tool that
is allowed to `tools.approval.policy.decide`, as a turn does it. So what people read is what happens.

Admins and the command line read the names of tools (`EffectiveRights.lines`), other people what those can do for them
(`plain_lines`), in the words of each tool's declaration (`ToolSpec.does`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from goclaw.common.auth.access import Access
from goclaw.common.auth.daily_budget import DailyBudget
from goclaw.common.auth.users import NO_HOURS, User
from goclaw.common.core.catalog import COMMANDS
from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.common.specs import Risk, SideEffect, ToolSpec
from goclaw.tools.approval.policy import decide
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.registry import Registry

CallAnswer = Literal["run", "ask", "refuse", "depends"]
"""The answer to calls of a tool: `Answer`, or `depends` where the call itself decides."""
NONE = "none"
INDEX = "index"
"""Tag of the tools by which a model finds others: people have nothing done with them."""


@record
class EffectiveRights:
    """The rights of one person as they are now. Names are sorted."""

    tools: tuple[str, ...]
    """The ids of the tools that the person may use, with the own ones of the agents that they may use."""
    asks: tuple[str, ...]
    """The tools that need a person's approval for every call."""
    may_ask: tuple[str, ...]
    """The tools that need approval for some calls."""
    refused: tuple[str, ...]
    """The tools with every call refused: in plan mode, or by `policy.stricter`."""
    answers: bool
    """Whether the person may approve their own calls."""
    writes_files: bool
    """Whether one of the tools changes files of the workspace."""
    commands: tuple[str, ...] | None
    """The slash commands; None: all except those for admins only."""
    budget: DailyBudget
    quiet_hours: str
    """`22:00-07:00`; empty: none."""

    def lines(self, folder: str) -> Iterator[tuple[str, str]]:
        """Yield name and text of what holds, for people.

        Args:
            folder: what to call the workspace.
        """
        yield "Tools", in_words(self.tools)
        if self.tools:
            who = "" if self.answers else ", answered by somebody else"
            yield "Asks first", f"{in_words(self.asks)}{who if self.asks else ''}"
        if self.may_ask:
            yield "Asks by call", in_words(self.may_ask)
        if self.refused:
            yield "Refused now", in_words(self.refused)
        yield "Writes files", f"in {folder}" if self.writes_files else "nowhere"
        yield "Daily budget", str(self.budget)
        yield "Quiet hours", self.quiet_hours or NONE
        if self.commands is not None:
            yield "Commands", in_words(self.commands)


def plain_lines(
    rights: EffectiveRights, specs: Sequence[ToolSpec], plugin: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """Yield name and text of what holds, for a person who knows no tool by its name.

    Args:
        rights: of the person.
        specs: those of the tools that can work, in the order to list them.
        plugin: returns the name of the plugin that the tool with an id comes from; empty: from none.
    """

    def abilities(names: Iterable[str]) -> list[str]:
        chosen = [spec for spec in specs if spec.id in names and INDEX not in spec.tags]
        return join_abilities(spec.does or _by_origin(spec, plugin(spec.id)) for spec in chosen)

    yield "I can", ", ".join(abilities({*rights.tools} - {*rights.refused})) or "talk with you"
    asks = [f"to {each}" for each in abilities(rights.asks)]
    if sometimes := abilities(rights.may_ask):
        asks.append(f"sometimes to {', to '.join(sometimes)}")
    if asks:
        yield "Asks first", f"{', '.join(asks)}{'' if rights.answers else '; somebody else answers'}"
    if refused := abilities(rights.refused):
        yield "Refused now", ", ".join(f"to {each}" for each in refused)
    yield "Daily budget", str(rights.budget)
    yield "Quiet hours", rights.quiet_hours or NONE


def join_abilities(phrases: Iterable[str]) -> list[str]:
    """Return each ability once, and those on the same things together: `read and write files`.

    The first word of a phrase is a verb, the rest what it is done to.
    """
    verbs: dict[str, list[str]] = {}
    for phrase in dict.fromkeys(phrases):
        verb, _, things = phrase.partition(" ")
        verbs.setdefault(things, []).append(verb)
    return [
        f"{' and '.join(filter(None, (', '.join(found[:-1]), found[-1])))} {things}" for things, found in verbs.items()
    ]


def _by_origin(spec: ToolSpec, plugin: str) -> str:
    return f"use tools of {plugin}" if plugin else f"use {spec.title}"


def in_words(names: Sequence[str]) -> str:
    """Return a list of names, as every text about rights has it."""
    return ", ".join(names) or NONE


def effective_rights(registry: Registry, access: Access, actor: Actor, user: User | None) -> EffectiveRights:
    """Return the rights of a person.

    Args:
        registry: the tools that there are.
        access: the rules, over the same tools.
        actor: the person.
        user: the person's entry of users.json, if any.
    """
    seen = [(each.lookup(spec.name), spec) for each in registry.with_agents(actor) for spec in each.visible_to(actor)]
    tools = sorted({spec.id: (tool, spec) for tool, spec in seen}.items())
    answers = {name: _answer(tool, spec, access, actor) for name, (tool, spec) in tools}

    def those(answer: CallAnswer) -> tuple[str, ...]:
        return tuple(name for name, found in answers.items() if found == answer)

    denied = [name for name in COMMANDS if not access.authorize(actor, "command.run", name).allowed]
    quiet = (user.quiet_hours if user else "") or access.config.quiet_hours or ""
    return EffectiveRights(
        tools=tuple(answers),
        asks=those("ask"),
        may_ask=those("depends"),
        refused=those("refuse"),
        answers=access.authorize(actor, "question.answer", actor.key).allowed,
        writes_files=any(writes_files(spec) for _, spec in seen),
        commands=tuple(sorted(set(COMMANDS) - set(denied))) if denied else None,
        budget=access.daily_budget(actor.key),
        quiet_hours="" if quiet == NO_HOURS else quiet,
    )


def writes_files(spec: ToolSpec) -> bool:
    """Whether a tool changes files of the workspace: the file tools that write, and tools that run commands there."""
    if "shell" in spec.tags:
        return spec.side_effect is SideEffect.SPAWNS
    return "write" in spec.tags and "filesystem" in spec.tags


def _answer(tool: Tool | None, spec: ToolSpec, access: Access, actor: Actor) -> CallAnswer:
    """Return what becomes of the calls of an allowed tool in the configured mode. Where they differ it depends; that
    some are refused is said when they are made."""
    usual = tool.usual_risk(access.config) if tool else spec.risk
    if tool is None or usual is not None:
        return decide(access, actor, spec, usual or spec.risk)
    answers = {decide(access, actor, spec, each) for each in risks_up_to(tool.highest_risk)}
    if len(answers) == 1:
        return answers.pop()
    return "depends" if "ask" in answers else "run"


def risks_up_to(most: Risk) -> list[Risk]:
    """Return the possible risks of calls, where their arguments decide; `contained` follows from the configuration."""
    ladder: list[Risk] = [risk for risk in Risk if risk is not Risk.CONTAINED]
    return ladder[: ladder.index(most) + 1] if most in ladder else [*Risk]
