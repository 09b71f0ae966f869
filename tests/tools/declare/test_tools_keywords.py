"""The short form: typed keywords, which make what the words make."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from goclaw import declare
from goclaw.common.core.clock import SteppedClock
from goclaw.common.specs import Risk, SideEffect
from goclaw.testing import open_bench
from goclaw.tools.declare import (
    RunPolicy,
    agent,
    agent_toolset,
    args,
    attribute,
    bind_to,
    call_hint_template,
    confirmation,
    default_caps,
    export,
    history,
    keep_recent_turns,
    max_tool_calls,
    model,
    prompt,
    required,
    returns,
    run_policy,
    system_prompt,
    tags,
    time_budget,
    title,
    tool,
    tools_profile,
    toolset,
    use,
    use_selected,
)
from goclaw.tools.toolkit.base import ToolContext
from goclaw.tools.toolkit.parts import parts_of
from goclaw.tools.toolkit.sources import open_sources
from tests.plugin import install, packages, with_packages
from tests.tables import table

__all__ = ["packages"]

READS = SideEffect.READ_ONLY


def place_of(plant: Annotated[str, Field(description="Its name.")]) -> str:
    """Say where a plant grows best."""
    return f"{plant}: in the sun"


@tool(confirm="Give {{ plant }} {{ litres }} l?", hint="Watering {{ plant }}", tags=["garden"], title="Water")
async def water(plant: str, litres: float = 1) -> str:
    """Water a plant."""
    return f"{plant} got {litres} l"


class Plan(BaseModel):
    beds: list[str]


@tool(prompt="Plan a garden with {{ wish }}.", confirm=confirmation(title="Plan?", prompt_template="Now?"))
def plan_garden(wish: str) -> Plan:
    """Have the gardener plan a garden."""
    raise NotImplementedError


DOCS = toolset(
    "docs", tool(lambda words: words, name="look_up", description="Look it up.", args=[attribute("words", str)])
)
GARDENER = agent(
    "gardener",
    "Knows plants.",
    uses=[place_of, water, DOCS, agent_toolset("planner", "plans"), "tag:memory"],
    exports=[plan_garden],
    policy=RunPolicy(history(keep_recent_turns(20)), max_tool_calls=8, time_budget="2m"),
    model=["ollama:big", "ollama:small"],
    system_prompt="Be brief.",
    tools_profile="core",
)


def test_keywords_of_an_agent_say_what_the_words_say() -> None:
    words = agent(
        "gardener",
        "Knows plants.",
        use(DOCS),
        use(agent_toolset("planner", "plans")),
        use_selected("tag:memory"),
        use("tools", tool(place_of), water),
        export("gardener.tools", plan_garden),
        run_policy(default_caps(max_tool_calls(8)), time_budget("2m"), history(keep_recent_turns(20))),
        model("ollama:big", "ollama:small"),
        system_prompt("Be brief."),
        tools_profile("core"),
    )
    assert words.settings == GARDENER.settings
    assert [each.members for each in words.toolsets] == [each.members for each in GARDENER.toolsets]


def test_keywords_of_a_tool_say_what_the_words_say() -> None:
    words = tool(
        "plan",
        "Plan it.",
        args(attribute("wish", str), required("wish")),
        returns(attribute("plan", str), required("plan")),
        prompt("Plan {{ wish }}."),
        tags("a", "b"),
        title("Plan"),
        call_hint_template("Planning"),
        confirmation(prompt_template="Now?"),
    )
    said = tool(
        "plan",
        "Plan it.",
        args=[attribute("wish", str), required("wish")],
        returns=[attribute("plan", str), required("plan")],
        prompt="Plan {{ wish }}.",
        tags=["a", "b"],
        title="Plan",
        hint="Planning",
        confirm="Now?",
    )
    assert said == words


def test_keywords_of_a_policy_say_what_the_words_say() -> None:
    mixed = RunPolicy(history(keep_recent_turns(20)), max_tool_calls=8, time_budget="2m")
    assert mixed == run_policy(default_caps(max_tool_calls(8)), time_budget("2m"), history(keep_recent_turns(20)))


async def test_a_function_is_a_tool_by_its_types_and_its_docstring(tmp_path: Path) -> None:
    made = tool(place_of, side_effect=READS).built()
    assert (made.spec.name, made.spec.description) == ("place_of", "Say where a plant grows best.")
    assert made.spec.schema["properties"] == {"plant": {"type": "string", "description": "Its name."}}
    assert made.spec.risk is Risk.LOW and tool(place_of).built().spec.side_effect is SideEffect.MUTATING
    async with open_bench(tmp_path, made, water.built()) as bench:
        assert (await bench.call("place_of", {"plant": "rose"})).content == "rose: in the sun"
        assert (await bench.call("water", {"plant": "rose"})).content == "rose got 1 l"
        assert "Give rose 1 l?" in str(bench.wanted)


def test_a_function_with_a_task_only_says_arguments_and_result() -> None:
    settings = GARDENER.settings.exports["gardener.tools"].tools["plan_garden"]
    assert settings.description == "Have the gardener plan a garden." and settings.confirm
    assert settings.arguments["properties"] == {"wish": {"type": "string"}}
    assert settings.result and list(settings.result["properties"]) == ["beds"]
    assert (settings.confirm.title, settings.confirm.prompt) == ("Plan?", "Now?")


async def test_arguments_that_code_fills_in_are_seen_by_no_model(tmp_path: Path) -> None:
    def look(session: str, query: str) -> str:
        """Look."""
        return f"{session}: {query}"

    fills = {"session": lambda ctx: ctx.session}
    bound = bind_to(look, side_effect=READS)
    shaped = args(attribute("query", str), required("query"))
    words = tool("look_too", "Look.", shaped, declare.inject(session=lambda ctx: ctx.session), bound)
    async with open_bench(tmp_path, tool(look, inject=fills).built(), words.built()) as bench:
        for name in ("look", "look_too"):
            assert (await bench.call(name, {"query": "x"})).content == "tui:somebody: x"
            assert "unknown field" in (await bench.call(name, {"query": "x", "session": "mine"})).content
    assert tool(look, inject=["session"]).built().spec.injected == {"session"}


async def test_a_function_may_take_the_context(tmp_path: Path) -> None:
    async def who(ctx: ToolContext, greeting: str) -> str:
        """Greet."""
        return f"{greeting}, {ctx.actor.key}"

    async with open_bench(tmp_path, tool(who).built()) as bench:
        assert (await bench.call("who", {"greeting": "Hello"})).content == "Hello, tui:somebody"


async def test_a_package_names_a_function_that_is_a_tool(packages: Path, tmp_path: Path) -> None:
    source = "from goclaw.declare import tool\n@tool\ndef greet() -> str:\n    'Greet.'\n    return 'Hello'\n"
    install(packages, "greeting", {"greeting": source}, {"tools.greet": "greeting:greet"})
    loaded = with_packages(tmp_path / "state")
    async with open_sources(loaded.config, SteppedClock(), parts_of(loaded.packaged)) as sources:
        assert sources.faults == {} and "greet" in [made.spec.name for made in sources.tools()]


class Tracker:
    def search(self, words: str) -> str:
        return f"found {words}"


TRACKER = Tracker()


def tracker(ctx: ToolContext) -> Tracker:
    return TRACKER


@pytest.mark.parametrize("service", [TRACKER, tracker])
async def test_a_method_is_bound_by_its_name_if_the_service_has_it(service: Any, tmp_path: Path) -> None:
    wanted = args(attribute("words", str), required("words"))
    made = tool("find", "Find.", wanted, bind_to("search", side_effect=READS, service=service)).built()
    async with open_bench(tmp_path, made) as bench:
        assert (await bench.call("find", {"words": "cake"})).content == "found cake"


def test_declare_is_imported_from_goclaw_and_loaded_only_then() -> None:
    assert declare.tool is tool
    loads = "import sys, goclaw; print([m for m in sys.modules if m.startswith('goclaw')])"
    done = subprocess.run([sys.executable, "-c", loads], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "['goclaw']"


def silent(x: int) -> int:
    return x


def five(limit: int = "five") -> str:  # type: ignore[assignment]  # the fault in question
    """Count."""
    return str(limit)


def level(how: Literal["low", "high"] = "middle") -> str:  # type: ignore[assignment]  # the fault in question
    """Set it."""
    return how


def least(name: Annotated[str, Field(ge=1)]) -> str:
    """Name it."""
    return name


def deep(names: list[Annotated[int, Field(min_length=2)]]) -> str:
    """Name them."""
    return str(names)


def untyped(x) -> str:  # type: ignore[no-untyped-def]  # the fault in question
    """Take anything."""
    return str(x)


ANY_TOOL: Any = tool
ANY_AGENT: Any = agent
ANY_POLICY: Any = RunPolicy
FAULTS: list[tuple[Any, str]] = [
    (lambda: ANY_TOOL(silent), "silent: has no description"),
    (lambda: ANY_TOOL("x", "", bind_to(place_of, side_effect=READS)), "x: has no description"),
    (lambda: ANY_TOOL(five), "five.limit: its default 'five': Input should be a valid integer"),
    (lambda: ANY_TOOL(level), "level.how: its default 'middle': Input should be 'low' or 'high'"),
    (lambda: ANY_TOOL(least), "least.name: minimum says nothing of the type string"),
    (lambda: ANY_TOOL(deep), "deep.names: minLength says nothing of the type integer"),
    (lambda: ANY_TOOL(untyped), "untyped: parameter x needs a type"),
    (lambda: attribute("n", int, default="five"), "attribute.n: its default 'five': Input should be a valid integer"),
    (lambda: attribute("n", str, enum=("a", "b"), default="c"), "attribute.n: its default 'c': Input should be 'a'"),
    (lambda: attribute("n", str, minimum=1), "attribute.n: minimum says nothing of the type string"),
    (lambda: attribute("n", int, max_length=1), "attribute.n: maxLength says nothing of the type integer"),
    (lambda: bind_to("find", side_effect=READS, service=TRACKER), "bind_to: the service has no method 'find'"),
    (lambda: bind_to("find", side_effect=READS), "bind_to: 'find' is a method's name, so say service="),
    (lambda: ANY_AGENT("my gardener", "x"), "'my gardener': no command can name such an agent"),
    (lambda: ANY_AGENT("main", "x"), "'main': no command can name such an agent"),
    (lambda: ANY_AGENT("a", "x", usess=[]), "agent: got an unexpected keyword argument 'usess'; did you mean uses?"),
    (lambda: ANY_AGENT("a"), "agent: missing a required argument: 'description'"),
    (lambda: ANY_AGENT("a", "x", uses=[3]), "a: uses takes tools, functions, toolsets and names of tools, not 3"),
    (lambda: ANY_AGENT("a", "x", uses=[max_tool_calls(3)]), "a: max_tool_calls stands in run_policy(…)"),
    (lambda: ANY_AGENT("a", "x", model("ollama:b"), model=["ollama:a"]), "a: model is said twice"),
    (lambda: ANY_TOOL(place_of, confrim="Now?"), "tool: got an unexpected keyword argument 'confrim'; did you mean"),
    (lambda: ANY_TOOL(place_of, confirm=title("Sure?")), "confirm takes a text or confirmation(…), not title(…)"),
    (lambda: ANY_TOOL(place_of, confirm="{{ plnat }}?"), "the confirmation of place_of names plnat; there are plant"),
    (lambda: ANY_TOOL(place_of, inject=["session"]), "place_of: inject names session, which is not an argument"),
    (lambda: ANY_TOOL("x", "Do.", side_effect=READS), "x: side_effect is said of a function"),
    (lambda: export("x", ANY_TOOL("y", "Do.", prompt="{{ wish }}")), "the task of y names wish; there are"),
    (lambda: ANY_TOOL(5), "tool: name must be str, not 5"),
    (lambda: ANY_POLICY(default_caps(max_tool_calls(8)), max_tool_calls=8), "run_policy: max_tool_calls is said twice"),
    (lambda: ANY_POLICY(max_tool_calls="8"), "RunPolicy: max_tool_calls must be int, not '8'"),
    (lambda: ANY_POLICY(max_tool_calls=0), "RunPolicy: max_tool_calls Input should be greater than or equal to 1"),
    (lambda: ANY_POLICY(time_budget="2 minits"), "RunPolicy: time_budget"),
]  # fmt: skip


@table("build, fault", FAULTS)
def test_a_fault_is_named_when_it_is_declared_without_the_words_of_a_library(build: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(fault)}") as raised:
        build()
    assert "pydantic" not in str(raised.value)
