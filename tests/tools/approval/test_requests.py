"""A call is bound to everything that it rests on: what changed after somebody said yes does not run."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.tools import ExecSettings
from goclaw.common.specs import Risk, SideEffect
from goclaw.errors import SandboxUnavailable
from goclaw.tools.approval.requests import Approval, ApprovalRequest, Grounds
from goclaw.tools.execution.sandbox.select import open_sandbox
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from goclaw.tools.toolkit.dispatcher import Dispatcher
from goclaw.tools.toolkit.registry import Registry
from tests.parts import Tools
from tests.tools.toolkit.test_dispatcher import bench

FACTS = {"file": "1"}


async def facts(arguments: Any, ctx: ToolContext) -> Grounds:
    return Grounds(dict(FACTS), pattern=("p",), labels=("words",))


@tool(side_effect=SideEffect.NETWORK, risk=Risk.HIGH, grounds=facts)
async def dig(ctx: ToolContext, where: str, depth: int = 1) -> str:
    """Dig a hole."""
    return f"dug {where}"


class Off:
    """As if nothing contained commands from now on."""

    tier = "off"


def another(of: Tool) -> Tool:
    return replace(of, spec=replace(of.spec, description="Another tool of that name."))


@pytest.mark.promise("P-approval")
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda source, environment: FACTS.update(file="2"), "changed after it was shown"),
        (lambda source, environment: FACTS.update(another="1"), "changed after it was shown"),
        (lambda source, environment: source.listed.__setitem__(0, another(dig)), "unknown tool: dig"),
        (lambda source, environment: environment.config.tools.exec.__dict__.update(network="host"), "changed after it"),
        (lambda source, environment: object.__setattr__(environment, "sandbox", Off()), "changed after it was shown"),
        (lambda source, environment: environment.config.policy.stricter.update(high="refuse"), "refused: dig has high"),
        (lambda source, environment: None, ""),
    ],
    ids=["a file", "one file more", "the tool", "the network", "the sandbox", "the rules", "nothing"],
)
async def test_what_changes_while_somebody_thinks_is_not_run(
    tmp_path: Path, change: Callable[[Any, Any], None], told: str
) -> None:
    FACTS.clear()
    FACTS["file"] = "1"
    async with bench(tmp_path) as at:
        source, environment = Tools([dig]), at.dispatcher._environment
        at.dispatcher = Dispatcher(Registry([source], at.dispatcher._access), at.dispatcher._access, environment)

        async def meanwhile(wanted: ApprovalRequest) -> Approval:
            change(source, environment)
            return Approval(wanted.digest)

        at.asking = meanwhile
        result = await at.call(dig, {"where": "here"})
        assert (told in result.content and result.is_error) if told else result.content == "dug here"


async def test_an_approval_that_lapsed_does_not_run(tmp_path: Path) -> None:
    async with bench(tmp_path) as at:

        async def late(wanted: ApprovalRequest) -> Approval:
            return Approval(wanted.digest, find_lapse=lambda: "its approval is too old")

        at.asking = late
        assert (await at.error("reach")).startswith("not run: its approval is too old.")
        assert at.begun == 0


async def test_one_part_of_the_arguments_more_is_another_call(tmp_path: Path) -> None:
    digests = []
    async with bench(tmp_path) as at:
        at.dispatcher = Dispatcher(
            Registry([Tools([dig])], at.dispatcher._access), at.dispatcher._access, at.dispatcher._environment
        )

        async def note(wanted: ApprovalRequest) -> Approval:
            digests.append(wanted.digest)
            return Approval(refusal="no")

        at.asking = note
        for given in ({"where": "a"}, {"where": "b"}, {"where": "a", "depth": 1}, {"depth": 2, "where": "a"}):
            await at.call(dig, given)
        await at.call(dig, {"where": "a", "depth": 2})
    assert len(set(digests)) == 4 and digests[3] == digests[4]


def test_a_template_that_names_what_is_no_argument_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="names depht"):
        tool(side_effect=SideEffect.NONE, denied='{"summary": {{ depht | json }}}')(dig.run)


@pytest.mark.promise("P-approval")
async def test_a_sandbox_that_is_only_proven_meanwhile_has_not_changed(tmp_path: Path) -> None:
    """Right after a start nothing is proven yet: when somebody is asked, or when the turn is taken up again."""
    FACTS.clear()
    async with bench(tmp_path) as at, open_sandbox(ExecSettings()) as sandbox:
        environment = at.dispatcher._environment
        object.__setattr__(environment, "sandbox", sandbox)
        at.dispatcher = Dispatcher(Registry([Tools([dig])], at.dispatcher._access), at.dispatcher._access, environment)

        async def when_it_is_proven(wanted: ApprovalRequest) -> Approval:
            with suppress(SandboxUnavailable):
                await sandbox.ready()
            return Approval(wanted.digest)

        at.asking = when_it_is_proven
        assert (await at.call(dig, {"where": "here"})).content == "dug here"
