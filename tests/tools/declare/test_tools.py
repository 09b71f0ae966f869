"""Tools and toolsets in code: tools like all others, done by a method."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from goclaw.common.core.events import ToolFinished, ToolStarted
from goclaw.common.specs import Annotations, Risk
from goclaw.testing import open_bench
from goclaw.tools.declare import (
    SideEffect,
    annotations,
    args,
    artifact,
    attribute,
    bind_to,
    bounded_result,
    call_hint_template,
    confirmation,
    description,
    from_mcp,
    inject,
    mcp_toolset,
    passthrough,
    prompt,
    required,
    result_hint_template,
    result_reminder,
    returns,
    tags,
    title,
    tool,
    toolset,
)
from goclaw.tools.declare.tools import ToolDeclaration
from goclaw.tools.hooks.base import HookAnswer
from goclaw.tools.toolkit.base import Tool
from tests.parts import Trail, acting

READS = SideEffect.READ_ONLY


@dataclass
class Page:
    """What the index gives back."""

    documents: list[str]
    total: int = 3


async def search(query: str, limit: int) -> Page:
    return Page([f"{query} {number}" for number in range(limit)])


SEARCH_ARGS = args(
    attribute("query", str, "Search phrase"), attribute("limit", int, "Most", default=2), required("query")
)
SEARCH = tool(
    "search_docs",
    "Search indexed documentation.",
    SEARCH_ARGS,
    returns(attribute("documents", list[str], "Matched snippets"), required("documents")),
    tags("search"),
    title("Document Search"),
    call_hint_template("Searching for: {{ query }}"),
    result_hint_template("Found {{ documents | count }} documents"),
    result_reminder("The person sees the list."),
    bind_to(search, side_effect=READS),
)
DOCS = toolset("docs.search", SEARCH, description("Documentation."), tags("docs"))


async def test_a_declared_tool_runs_with_checked_arguments_and_hints(tmp_path: Path) -> None:
    async with open_bench(tmp_path, *DOCS.tools) as bench:
        done = await bench.call("search_docs", {"query": "cake"})
        wrong = await bench.call("search_docs", {"limit": "many"})
        events = bench.events
    assert done.content == '{"documents":["cake 0","cake 1"]}' and done.reminds
    assert 'field \\"query\\": expected string, got nothing' in wrong.content
    assert next(event.hint for event in events if isinstance(event, ToolStarted)) == "Searching for: cake"
    assert next(event.hint for event in events if isinstance(event, ToolFinished)) == "Found 2 documents"


def test_what_is_said_of_it_is_in_its_spec() -> None:
    (made,) = DOCS.tools
    spec = made.spec
    assert (spec.title, spec.description, spec.tags) == (
        "Document Search",
        "Search indexed documentation.",
        frozenset({"docs", "search"}),
    )
    assert spec.reminder == "The person sees the list." and spec.risk is Risk.LOW
    assert DOCS.description == "Documentation." and DOCS.members == ("search_docs",)


def test_hints_for_clients_are_said_one_by_one_and_change_nothing_else() -> None:
    given = (SEARCH_ARGS, title("Keep"), bind_to(search, side_effect=SideEffect.MUTATING))
    usual = tool("keep", "Keep it.", *given).built().spec
    said = tool("keep", "Keep it.", *given, annotations(destructive=False, open_world=True)).built().spec
    assert usual.annotations == Annotations("Keep", read_only=False, idempotent=True, open_world=False)
    assert said.annotations == replace(usual.annotations, destructive=False, open_world=True)
    assert replace(said, annotations=usual.annotations) == usual


def test_a_toolset_may_hold_tools_that_are_there_already() -> None:
    note = acting("note", Trail().leave)
    assert toolset("mixed", note, SEARCH).members == ("note", "search_docs")


class Store:
    """A service that is found when it is called."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def put(self, key: str, value: str) -> str:
        """Keep a value."""
        self.kept[key] = value
        return "kept"


async def test_bind_to_gives_a_method_its_own_arguments_and_the_tool_its_own_result(tmp_path: Path) -> None:
    store = Store()
    declared = tool(
        "keep",
        "Keep a note.",
        args(attribute("note", str), required("note")),
        returns(str),
        bind_to(
            Store.put,
            side_effect=SideEffect.MUTATING,
            service=lambda ctx: store,
            to_call=lambda given: {"key": "note", "value": given.note},
            to_result=str.upper,
        ),
    )
    async with open_bench(tmp_path, declared.built()) as bench:
        assert (await bench.call("keep", {"note": "milk"})).content == "KEPT"
    assert store.kept == {"note": "milk"}


async def test_passthrough_hands_a_call_on_to_a_method_as_it_is(tmp_path: Path) -> None:
    store = Store()
    made = tool("put", "Keep a value.", passthrough(store.put)).built()
    assert made.spec.schema["required"] == ["key", "value"]
    async with open_bench(tmp_path, made) as bench:
        assert (await bench.call("put", {"key": "a", "value": "b"})).content == "kept"
    assert store.kept == {"a": "b"}


async def test_an_artifact_is_kept_for_people_and_the_result_is_bounded(tmp_path: Path) -> None:
    def bounds(page: Page) -> dict[str, Any]:
        return {
            "returned": 1,
            "total": page.total,
            "truncated": True,
            "refinement_hint": "ask for more",
            "first": "cake",
        }

    declared = tool(
        "look",
        "Look.",
        SEARCH_ARGS,
        returns(attribute("first", str), required("first")),
        bounded_result(),
        artifact("documents", attribute("documents", list[str]), required("documents"), taken=lambda page: page),
        bind_to(search, side_effect=READS, to_result=lambda page: LOOK.result.declared.model_validate(bounds(page))),
    )
    LOOK = declared.built()
    assert LOOK.spec.bounded and set(LOOK.spec.artifacts) == {"documents"}
    async with open_bench(tmp_path, LOOK) as bench:
        done = await bench.call("look", {"query": "cake"})
    assert '"total":3' in done.content and [each.kind for each in done.artifacts] == ["documents"]


async def test_an_injected_argument_is_hidden_and_filled_in_by_hooks(tmp_path: Path) -> None:
    async def answer(session_id: str, query: str) -> str:
        return f"{session_id}: {query}"

    declared = tool(
        "get_data",
        "Get data.",
        args(attribute("session_id", str), attribute("query", str), required("session_id", "query")),
        inject("session_id"),
        bind_to(answer, side_effect=READS),
    )
    made = declared.built()
    assert list(made.spec.schema["properties"]) == ["query"] and made.spec.schema["required"] == ["query"]
    async with open_bench(tmp_path, made) as bench:
        assert "unknown field" in (await bench.call("get_data", {"session_id": "x", "query": "y"})).content
        assert "not set up" in (await bench.call("get_data", {"query": "y"})).content

        async def filled(event: object) -> HookAnswer:
            return HookAnswer(inject={"session_id": "s1"})

        hooks = bench.dispatcher.hooks
        hooks.points = frozenset({"pre_tool"})  # one hook, without a file
        hooks.fire = filled  # type: ignore[method-assign]  # one hook, without a file
        assert (await bench.call("get_data", {"query": "y"})).content == "s1: y"


async def test_a_confirmation_is_asked_and_words_its_denial(tmp_path: Path) -> None:
    declared = tool(
        "drop",
        "Drop a table.",
        args(attribute("table", str), required("table")),
        confirmation(
            title="Confirm change",
            prompt_template="Drop {{ table }}?",
            denied_result_template='{"summary": "Kept", "table": {{ table | json }}}',
        ),
        bind_to(lambda table: f"dropped {table}", side_effect=SideEffect.MUTATING),
    )
    async with open_bench(tmp_path, declared.built()) as bench:
        assert (await bench.call("drop", {"table": "cats"})).content == "dropped cats"
        (wanted,) = bench.wanted
        bench.agrees = False
        denied = await bench.call("drop", {"table": "cats"})
    assert "Drop cats?" in str(wanted)
    assert '"summary":"Kept","table":"cats"' in denied.content.replace(": ", ":").replace(", ", ",")


def test_a_toolset_of_an_mcp_server_is_all_that_it_offers_or_what_is_declared_and_pinned() -> None:
    assert toolset("suite", from_mcp("assistant")).members == ("tag:mcp-assistant",)
    remote = mcp_toolset("remote", "search", tool("web_search", "Search the web.", args(attribute("query", str))))
    assert remote.members == ("tag:search:web_search",) and remote.tools == ()
    assert remote.pinned and remote.pinned.server == "remote"
    assert remote.pinned.tools["web_search"].input_schema == {
        "type": "object",
        "properties": {"query": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}},
    }


def test_a_pin_is_the_servers_own_schema_to_the_letter_or_none() -> None:
    theirs = {"type": "object", "title": "Find", "properties": {"q": {"title": "Q", "type": "string"}}}
    remote = mcp_toolset("remote", "search", tool("find", "Find.", args(theirs)), tool("look", "Look."))
    assert remote.pinned
    pins = remote.pinned.tools
    assert pins["find"].input_schema == theirs and pins["find"].output_schema is None
    assert pins["look"].input_schema is None, "only that it is there is wanted"


async def test_the_bounded_result_of_the_source_document_is_one_here(tmp_path: Path) -> None:
    """Its complete example, field by field."""

    async def list_devices(site_id: str, limit: int) -> dict[str, Any]:
        return {"devices": [site_id], "returned": 1, "total": 9, "truncated": True, "refinement_hint": "name a status"}

    declared = tool(
        "list_devices",
        "List IoT devices",
        args(attribute("site_id", str), attribute("limit", int, default=50, maximum=500), required("site_id")),
        returns(
            attribute("devices", list[str], "Matching devices"),
            attribute("returned", int, "Count of returned devices"),
            attribute("total", int, "Total matching devices"),
            attribute("truncated", bool, "Results were capped"),
            attribute("refinement_hint", str, "How to narrow results"),
            required("devices", "returned"),
        ),
        bounded_result(),
        bind_to(list_devices, side_effect=READS),
    )
    async with open_bench(tmp_path, declared.built()) as bench:
        said = (await bench.call("list_devices", {"site_id": "hall"})).content
    assert '"refinement_hint":"name a status"' in said and '"total":9' in said


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ({"documents": "cake"}, "documents: Input should be a valid list"),
        ({"pages": []}, "documents: Field required"),
        ({"documents": [1]}, "documents.0: Input should be a valid string"),
    ],
)
async def test_a_result_of_the_wrong_type_names_its_field(tmp_path: Path, found: Any, fault: str) -> None:
    declared = tool(
        "look",
        "Look.",
        returns(attribute("documents", list[str]), required("documents")),
        bind_to(lambda: found, side_effect=READS),
    )
    async with open_bench(tmp_path, declared.built()) as bench:
        said = (await bench.call("look", {})).content
    assert f"[look ran, but its result is not what it declares: {fault}" in said
    assert said.startswith("{"), "what it returned comes first"


async def test_what_to_call_gives_and_the_method_does_not_take_is_named_and_nothing_runs(tmp_path: Path) -> None:
    ran: list[str] = []
    bound = bind_to(lambda path: ran.append(path), side_effect=READS, to_call=lambda given: {"file": "x"})
    async with open_bench(tmp_path, tool("look", "Look.", bound).built()) as bench:
        said = (await bench.call("look", {})).content
    assert (
        "not run: to_call does not fit: <lambda> needs `path`, which is not an argument of the tool" in said and not ran
    )


def make(*options: Any) -> ToolDeclaration:
    return tool("it", "Does it.", *options)


class Wider(BaseModel):
    query: str
    limit: int
    sort: str


def by_position(value: int, /) -> int:
    return value


BOUND = bind_to(search, side_effect=READS)


@pytest.mark.parametrize(
    ("build", "fault"),
    [
        (lambda: make().built(), "it: nothing does it"),
        (lambda: make(title("a"), title("b")), "title is said twice"),
        (lambda: make(BOUND, passthrough("read")), "exclude each other"),
        (lambda: make(BOUND, prompt("Do it.")), "something else does this tool"),
        (
            lambda: make(SEARCH_ARGS, BOUND, call_hint_template("{{ nobody }}")).built(),
            "the call hint of it names nobody",
        ),
        (lambda: make(SEARCH_ARGS, BOUND, inject("nobody")).built(), "inject names nobody"),
        (
            lambda: make(BOUND).built(),
            "it: args does not fit the method: search needs `query`, which is not an argument",
        ),
        (lambda: make(SEARCH_ARGS, args(attribute("sort", str))).built(), "args is said twice"),
        (
            lambda: make(args(Wider), BOUND).built(),
            "it: args does not fit the method: search takes no `sort`, only: query, limit",
        ),
        (
            lambda: make(
                args(attribute("query", str), attribute("limit", str), required("query", "limit")), BOUND
            ).built(),
            "it: args does not fit the method: `limit` is of type str, and search takes int",
        ),
        (
            lambda: make(args(int), bind_to(by_position, side_effect=READS)).built(),
            "takes `value` by its position alone",
        ),
    ],
)
def test_what_does_not_hold_together_is_refused_when_it_is_declared(build: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        build()


def test_every_tool_of_a_toolset_is_a_tool_of_the_house() -> None:
    assert [type(each) for each in DOCS.tools] == [Tool]
