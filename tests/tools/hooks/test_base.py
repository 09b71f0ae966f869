"""Hooks as a whole: who is called, in which order, and what becomes of what they answer."""

import logging
from typing import Any

import pytest

from goclaw.common.core.redact import remember
from goclaw.tools.hooks.base import MAY, POINTS, HookAnswer, HookEvent, Hooks, Point, Registered
from tests.tools.hooks.support import ANNA, Heard, event


def answering(*answers: HookAnswer | Exception, name: str = "h", at: Any = POINTS, match: Any = ()) -> Registered:
    """A hook that gives these answers, one after the other, and the last one again."""
    left = list(answers)

    async def hook(event: HookEvent) -> HookAnswer:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Registered(name, frozenset(at), hook, frozenset(match))


@pytest.mark.parametrize(
    ("match", "heard"), [((), True), (("exec",), True), (("tag:shell",), True), (("read",), False), (("shell",), False)]
)
async def test_a_hook_hears_of_the_tools_that_it_matches(match: tuple[str, ...], heard: bool) -> None:
    hooks = Hooks([answering(HookAnswer(deny="no"), at=["pre_tool"], match=match)])
    assert bool((await hooks.fire(event())).deny) is heard


async def test_nobody_is_called_elsewhere() -> None:
    hooks = Hooks([answering(HookAnswer(deny="no"), at=["pre_tool"])])
    assert hooks.points == {"pre_tool"} and Hooks().points == set()
    assert await hooks.fire(HookEvent("message_in", "s", ANNA, text="hi")) == HookAnswer()


async def test_answers_are_put_together_in_order() -> None:
    first = HookAnswer(context="one", input={"a": 1}, inject={"x": 1, "y": 1})
    hooks = Hooks([answering(first), answering(HookAnswer(context="two", input={"a": 2}, inject={"y": 2}))])
    together = HookAnswer(context="one\ntwo", input={"a": 2}, inject={"x": 1, "y": 2})
    assert await hooks.fire(event()) == together


@pytest.mark.parametrize("point", sorted(POINTS))
async def test_what_means_nothing_at_a_point_is_a_failure(point: Point) -> None:
    answers = {
        "deny": HookAnswer(deny="x"),
        "input": HookAnswer(input={}),
        "inject": HookAnswer(inject={"x": 1}),
        "context": HookAnswer(context="x"),
        "suppress": HookAnswer(suppress=True),
        "text": HookAnswer(text=""),
    }
    for name, answer in answers.items():
        alerts = Heard()
        got = await Hooks([answering(answer)], alerts).fire(HookEvent(point, "s", ANNA, tool="exec"))
        if name in MAY[point] or (name in ("input", "text") and not answer.wanted()):
            assert (got, alerts.open) == (answer, {})
        else:
            assert "means nothing there" in alerts.open["hook:h"]
            assert bool(got.deny) is (point == "pre_tool")


@pytest.mark.promise("P-hook-closed")
async def test_a_failure_forbids_before_a_tool_and_is_reported_elsewhere(caplog: pytest.LogCaptureFixture) -> None:
    remember("a-secret-of-a-hook-4711")
    alerts = Heard()
    hooks = Hooks([answering(ZeroDivisionError("a-secret-of-a-hook-4711"), HookAnswer(), name="guard")], alerts)
    with caplog.at_level(logging.WARNING):
        assert (await hooks.fire(event())).deny.startswith("the hook guard failed")
    assert alerts.open["hook:guard"].startswith("the hook guard failed at pre_tool: [secret]")
    assert await hooks.fire(event("post_tool")) == HookAnswer()
    assert alerts.open == {}, "it works again"
