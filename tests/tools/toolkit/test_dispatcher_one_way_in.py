"""No tool runs but through the dispatcher: every place in the code where one could be run is known."""

import ast
from functools import cache
from pathlib import Path

import goclaw
from goclaw.tools.toolkit.base import Tool

ROOT = Path(goclaw.__file__).parent
WAYS_IN = {
    "tools/toolkit/dispatcher.py": {"tool.call", "watch.call"},
    "tools/toolkit/bench.py": {"self.dispatcher.call"},
    "conversation/turns/turn.py": {"self._services.dispatcher.call"},
    "conversation/turns/tool_requests.py": {"self.dispatcher.call"},
    "program/cli/tool.py": {"self.dispatcher.call", "wanted.call"},
    "gateway/servers/mcp/tools.py": {"self._backend.dispatcher.call"},
    # The call that an approval and a watch are about: data.
    "tools/toolkit/scope.py": {"self.call"},
    "gateway/servers/mcp/approving.py": {"wanted.call"},
    "conversation/questions/turn_questions.py": {"wanted.call"},
    "conversation/questions/question_messages.py": {"wanted.call"},
}
"""Every use of an attribute `call`: who asks the dispatcher, and the dispatcher's one line that runs a tool."""


@cache
def sources() -> dict[str, ast.Module]:
    """Every file of the package in which anything is called so, or that has to do with tools, by its path in it."""
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
    wanted = (".call", ".run", "goclaw.tools.builtin.", "@tool")
    return {path: ast.parse(text) for path, text in texts.items() if any(word in text for word in wanted)}


def uses(tree: ast.Module, name: str) -> set[str]:
    """Every use of an attribute of that name, called or handed on, in words."""
    return {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == name}


def test_every_way_to_call_a_tool_is_known_and_leads_through_the_dispatcher() -> None:
    found = {path: calls for path, tree in sources().items() if (calls := uses(tree, "call"))}
    assert found == WAYS_IN


def test_nobody_runs_the_function_behind_a_tool_but_the_tool() -> None:
    for path, tree in sources().items():
        past = {use for use in uses(tree, "run") if "tool" in use.split(".")[-2].lower()}
        assert not past, f"{path} runs {past} past the dispatcher"
    assert uses(sources()["tools/toolkit/base.py"], "run") == {"self.run"}


def test_a_file_of_tools_gives_others_helpers_and_no_tool() -> None:
    for path, tree in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("goclaw.tools.builtin."):
                assert path.startswith(("tools/", "extensions/")), f"{path} imports {node.module}"
                file = f"{(node.module or '').removeprefix('goclaw.').replace('.', '/')}.py"
                taken = {name.name for name in node.names} & (declared(sources()[file]) if file in sources() else set())
                assert not taken, f"{path} imports the tool {taken}"


def declared(tree: ast.Module) -> set[str]:
    """The functions of a module that `@tool` makes tools of."""
    functions = (node for node in tree.body if isinstance(node, ast.AsyncFunctionDef))
    return {each.name for each in functions if any(ast.unparse(by).startswith("tool(") for by in each.decorator_list)}


def test_a_tool_cannot_be_called() -> None:
    assert "__call__" not in vars(Tool)
