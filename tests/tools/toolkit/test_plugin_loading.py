"""A one-file plugin is executed only if nobody else may write it; a check names all of its faults."""

import os
import sys
from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.tools.toolkit.plugin_loading import FileFault, check_file, load_file
from tests.tools.toolkit.one_file import DECLARED, TOOL, own, put

pytestmark = pytest.mark.promise("P-plugins-one-file")

FAULTY = '''\
from goclaw.declare import SideEffect, agent, args, attribute, bind_to, required, returns, tool, toolset, use
from goclaw.toolkit.base import ToolContext
from goclaw.toolkit.base import tool as plain


@plain(side_effect=SideEffect.NONE, call_hint="{{ nothing }}")
async def bad_hint(ctx: ToolContext, x: int) -> str:
    """Say."""
    return "x"


async def place_of(plant: str) -> str:
    return "x"


BEDS = toolset(
    "garden.beds",
    tool("two words", "x", args(attribute("plant", str)), bind_to(place_of, side_effect=SideEffect.READ_ONLY)),
    tool("good", "x", args(attribute("a", str), required("b")), bind_to(place_of, side_effect=SideEffect.READ_ONLY)),
)
GARDENER = agent("gardener", "Knows plants.", use(BEDS), required("x"))
import nothing_of_that_name

nothing_of_that_name.begin()
not_defined()


@plain(side_effect=SideEffect.NONE)
async def read(ctx: ToolContext) -> str:
    """Have a name that is taken."""
    return ""
'''


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(state_dir=own(tmp_path / "state"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return own(tmp_path / "mine")


def test_a_check_names_every_fault_once_with_its_place(config: Config, folder: Path) -> None:
    path = put(folder / "garden.py", FAULTY)
    found = [(each.line, each.column, each.message) for each in check_file(path, config)]
    wanted = [
        (6, 2, "the call hint of bad_hint names nothing; there are x"),
        (18, 5, "'two words': a tool's name has up to 64"),
        (19, 5, "good: required names b, which is not a field"),
        (22, 1, "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        (25, 1, "NameError: name 'not_defined' is not defined"),
        (29, 1, "tool read has the name of one that is built in"),
    ]
    assert [(line, column) for line, column, _ in found] == [(line, column) for line, column, _ in wanted]
    for (_, _, message), (_, _, begins) in zip(found, wanted, strict=True):
        assert message.startswith(begins)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ('attribute("key", "string")', "key: 'string' is a text, not a type: write str, without quotes"),
        ('attribute("key", 5)', "key: 5 is not a type that a field can have"),
        ('attribute("key", list["nope"])', "key: list['nope'] is not a type that a field can have"),
        ('attribute("key", object())', "key: <object object at"),
        ("attribute(3, str)", "attribute: name must be str, not 3"),
        ('attribute("key", str, enum=3)', "attribute: enum must be Sequence[Any], not 3"),
        ('attribute("key", str, min_length="x")', "attribute: min_length must be int | None, not 'x'"),
        ('required("a", 3)', "required: names must be str, not 3"),
        ('max_tool_calls("many")', "max_tool_calls: number must be int, not 'many'"),
        ("bind_to(5, side_effect=SideEffect.NONE)", "bind_to: method must be Callable[..., Any] | str, not 5"),
        ("bind_to(print, side_effect='none')", "bind_to: side_effect must be SideEffect, not 'none'"),
        ('agent(3, "x")', "agent: name must be str, not 3"),
        ('tool("look", 7)', "tool: description must be str, not 7"),
    ],
)
def test_an_argument_of_the_wrong_type_is_named_with_its_place_and_remedy(
    word: str, message: str, config: Config, folder: Path
) -> None:
    text = f"from goclaw.declare import *\nfrom goclaw.common.specs import SideEffect\n\nmade = [{word}]\n"
    first, *_ = check_file(put(folder / "garden.py", text), config)
    assert (first.line, first.column) == (4, 9) and first.message.startswith(message)


@pytest.mark.parametrize("text", [TOOL.format(name="garden", says="x"), DECLARED])
def test_a_sound_file_has_no_fault_and_leaves_no_module(text: str, config: Config, folder: Path) -> None:
    before = {name for name in sys.modules if name.startswith("goclaw_plugin_")}
    assert check_file(put(folder / "garden.py", text), config) == []
    assert {name for name in sys.modules if name.startswith("goclaw_plugin_")} == before


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (b"x = (", (1, 5), "never closed"),
        (b"a\0b", (1, 1), "not a text file"),
        (b"x = '\xff'", (1, 1), "not UTF-8"),
        (b"#" * 1_000_001, (1, 1), "larger than 1,000,000 bytes"),
        (b"", (1, 1), "declares no tool"),
    ],
)
def test_what_is_no_source_is_one_fault(
    content: bytes, place: tuple[int, int], message: str, config: Config, folder: Path
) -> None:
    path = folder / "garden.py"
    path.write_bytes(content)
    path.chmod(0o600)
    (found,) = check_file(path, config)
    assert (found.line, found.column) == place and message in found.message


LATE = '''\
from typing import Annotated

from goclaw.declare import SideEffect, agent, args, attribute, bind_to, tool
from goclaw.toolkit.base import ToolContext
from goclaw.toolkit.base import tool as plain
from pydantic import Field


@plain(side_effect=SideEffect.NONE)
async def silent(ctx: ToolContext) -> str:
    return ""


@tool
def count(limit: int = "five") -> str:
    """Count."""
    return ""


@tool(confirm="Sure?")
def name(text: Annotated[str, Field(ge=1)]) -> str:
    """Name."""
    return ""


HOW = attribute("how", str, enum=("a", "b"), default="c")
FIND = tool("find", "Find.", bind_to("serch", side_effect=SideEffect.NONE, service=str))
agent("my gardener", "Knows plants.", uses=[print])
'''


def test_a_check_finds_what_would_fail_at_a_call(config: Config, folder: Path) -> None:
    found = [(each.line, each.message) for each in check_file(put(folder / "garden.py", LATE), config)]
    assert [line for line, _ in found] == [10, 14, 20, 26, 27, 28]
    begins = [
        "tool silent has no description",
        "count.limit: its default 'five': Input should be a valid integer",
        "name.text: minimum says nothing of the type string",
        "attribute.how: its default 'c': Input should be 'a' or 'b'",
        "bind_to: the service has no method 'serch'",
        "'my gardener': no command can name such an agent",
    ]
    for (_, message), begin in zip(found, begins, strict=True):
        assert message.startswith(begin)


def test_two_tools_of_one_name_are_a_fault_of_the_second(config: Config, folder: Path) -> None:
    text = TOOL.format(name="garden", says="1") + TOOL.format(name="second", says="2").replace(
        "NONE)", "NONE, name='garden')"
    )
    (found,) = check_file(put(folder / "garden.py", text), config)
    assert (found.line, found.message) == (
        14,
        "tool garden is declared twice in this file; give one of the two another name",
    )


def test_what_is_imported_or_private_is_no_tool_of_the_file(config: Config, folder: Path) -> None:
    text = "from goclaw.tools.builtin.read import read\n" + TOOL.format(name="garden", says="x")
    text += TOOL.format(name="_own", says="x")
    parts = load_file(put(folder / "garden.py", text), config)
    assert [tool.spec.name for tool in parts.tools] == ["garden"]


def test_classes_of_a_file_find_their_module(config: Config, folder: Path) -> None:
    text = (
        "from __future__ import annotations\nfrom pydantic import BaseModel\n"
        "class Bed(BaseModel):\n    plants: list[Plant]\nclass Plant(BaseModel):\n    name: str\n"
        + TOOL.format(name="garden", says="x").replace("-> str", "-> Bed").replace("from goclaw", "from goclaw", 1)
    )
    (tool,) = load_file(put(folder / "garden.py", text), config).tools
    assert "plants" in tool.spec.result_schema["properties"]


@pytest.mark.parametrize(
    ("loosened", "mode", "remedy"),
    [
        ("garden.py", 0o664, "chmod go-w {path}"),
        ("garden.py", 0o646, "chmod go-w {path}"),
        (".", 0o775, "chmod go-w {folder}"),
        (".", 0o757, "chmod go-w {folder}"),
        (".", 0o1777, "chmod go-w {folder}"),
        ("..", 0o777, "chmod o-w {above}"),
    ],
)
@pytest.mark.promise("P-plugins-one-file")
def test_a_file_that_others_may_change_is_refused_with_the_remedy(
    loosened: str, mode: int, remedy: str, config: Config, tmp_path: Path
) -> None:
    path = put(own(tmp_path / "above" / "mine") / "garden.py", TOOL.format(name="garden", says="x"))
    assert load_file(path, config).tools
    (path.parent / loosened if loosened != "garden.py" else path).resolve().chmod(mode)
    said = remedy.format(path=path, folder=path.parent, above=path.parent.parent)
    with pytest.raises(FileFault) as raised:
        load_file(path, config)
    assert f"`{said}`" in str(raised.value)
    assert [said in each.message for each in check_file(path, config)] == [True]


@pytest.mark.promise("P-plugins-one-file")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_refused(config: Config, folder: Path) -> None:
    path = put(folder / "garden.py", TOOL.format(name="garden", says="x"))
    os.chown(path, 12_345, -1)
    with pytest.raises(FileFault, match=r"belongs to another user \(uid 12345\).*`chown 0 "):
        load_file(path, config)


@pytest.mark.promise("P-plugins-one-file")
def test_a_link_is_as_safe_as_both_of_its_folders(config: Config, folder: Path, tmp_path: Path) -> None:
    path = put(folder / "garden.py", TOOL.format(name="garden", says="x"))
    loose = own(tmp_path / "loose")
    (loose / "link.py").symlink_to(path)
    assert load_file(loose / "link.py", config).tools
    loose.chmod(0o777)
    with pytest.raises(FileFault, match=f"chmod go-w {loose}"):
        load_file(loose / "link.py", config)


@pytest.mark.promise("P-plugins-one-file")
def test_a_file_that_the_agent_may_change_is_refused(config: Config, tmp_path: Path) -> None:
    (config.state_dir / "users.json").write_text(
        f'{{"users": {{"telegram:5": {{"workspace": "{own(tmp_path / "anns")}"}}}}}}'
    )
    for place in (config.workspace_path, config.people_path / "telegram.5", tmp_path / "anns"):
        path = put(place / "garden.py", TOOL.format(name="garden", says="x"))
        with pytest.raises(FileFault, match="where the agent may change it"):
            load_file(path, config)


OWN = """
from goclaw.specs import SideEffect
from goclaw.toolkit.base import ToolContext, tool as built
from goclaw.declare import agent, tool, toolset


@built(side_effect=SideEffect.NONE)
async def dig(ctx: ToolContext) -> str:
    \"\"\"Dig.\"\"\"
    return "dug"


@tool
def answer() -> str:
    \"\"\"Answer.\"\"\"
    return "yes"


ONE = agent("one", "One.", uses=[dig, answer])
TWO = agent("two", "Two.", uses=[answer])
COMMON = toolset("common", tool(lambda: "no", name="answer", description="Answer.", side_effect=SideEffect.NONE))
"""


def test_what_agents_of_a_file_use_is_their_own_and_may_have_one_name(config: Config, folder: Path) -> None:
    path = put(folder / "garden.py", OWN)
    assert check_file(path, config) == []
    ids = {tool.spec.id for tool in load_file(path, config).tools}
    assert ids == {"one.tools.dig", "one.tools.answer", "two.tools.answer", "answer"}
