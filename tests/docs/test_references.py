"""What the pages name exists: commands, options, slash commands, keys, places in pages; and nothing is left out."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from goclaw.common.auth.users import Users
from goclaw.common.config.keys import ANY_NAME, keys
from goclaw.common.config.load import load_config
from goclaw.common.config.schema import Config
from goclaw.common.core.catalog import COMMANDS as SLASH_COMMANDS
from goclaw.common.core.catalog import TOOLS
from goclaw.program.cli import frame
from tests import house
from tests.docs.pages import SHELL, Page, pages
from tests.tables import table

SWITCH = re.compile(r"--[a-z][a-z-]+|-[a-z]\b")
SLASH = re.compile(r"/[a-z]+(?=$| )")
IN_CLIENT = {"/quit", "/exit"}
"""Typed in the terminal client, and its own."""
FOLDERS = {"/tmp", "/opt", "/proc", "/data", "/backups"}
OF_OTHERS = {"/healthz", "/readyz", "/ws", "/metrics", "/v1", "/newbot", "/setprivacy", "/deletewebhook"} | FOLDERS
"""Commands of @BotFather, methods of the Bot API, folders."""
SECTIONS = {key.path[0] for key in keys(Config) if len(key.path) == 1}
KEYS = {key.path for key in keys(Config)}
PAGES = [pytest.param(page, id=page.name) for page in pages()]
GENERATED = ("docs/configuration.md", "docs/tools.md")
WRITTEN_BY_HAND = [page for page in pages() if page.name not in GENERATED]
BY_HAND = [pytest.param(page, id=page.name) for page in WRITTEN_BY_HAND]


def lines_of(page: Page) -> Iterator[str]:
    """Every command line that a page shows, in blocks and between backticks."""
    for block in page.blocks():
        if block.language in SHELL:
            yield from block.text.splitlines()
    yield from page.codes()


def calls(line: str) -> Iterator[list[str]]:
    """The words of each `goclaw …` in a line."""
    for found in re.finditer(r"(?:^|[;&|] *|\(|gateway |^\$ )goclaw (?P<rest>[^;&|#)]*)", line):
        try:
            yield shlex.split(found["rest"].replace("…", " "))
        except ValueError:
            yield found["rest"].split()


def wrong(words: list[str]) -> str:
    """What is wrong with the words after `goclaw`; empty when it could be typed."""
    program: Any = frame.load_command("goclaw.program.cli.frame:app")
    command = program
    while words and not words[0].startswith("-") and (known := getattr(command, "commands", None)):
        names = words[0].split("|")
        if missing := [name for name in names if name not in known]:
            return f"no command {missing[0]}"
        command = frame.load_command(frame.COMMANDS[names[0]][0]) if command is program else known[names[0]]
        words = words[1:]
    own = {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
    everywhere = {"--config", "--set", "--debug", "--help", "-h"}
    unknown = [word for word in words if SWITCH.fullmatch(word) and word not in own | everywhere]
    return f"no option {unknown[0]}" if unknown else ""


@table("page", PAGES)
def test_every_command_that_is_named_exists(page: Page) -> None:
    found = {line: wrong(words) for line in lines_of(page) for words in calls(line)}
    assert {line: problem for line, problem in found.items() if problem} == {}


def test_a_command_that_does_not_exist_is_found() -> None:
    """The finder itself."""
    assert [wrong(words) for words in calls("goclaw statsu; goclaw send --jsn x && goclaw users add a --name b")] == [
        "no command statsu",
        "no option --jsn",
        "",
    ]


@table("page", PAGES)
def test_every_slash_command_that_is_named_exists(page: Page) -> None:
    named = {found[0] for code in page.codes() if (found := SLASH.match(code))}
    assert named - {f"/{name}" for name in SLASH_COMMANDS} - IN_CLIENT - OF_OTHERS == set()


@table("page", BY_HAND)
def test_every_key_of_the_configuration_that_is_named_exists(page: Page) -> None:
    dotted = re.compile(r"(?P<key>[a-z_]+(?:\.(?:[a-z_-]+|<\w+>))+)(?:[:=] ?.*)?")
    for code in page.codes():
        if (
            code.endswith(".py")
            or code.startswith("memory.db")
            or (house.ROOT / f"goclaw/{code.replace('.', '/')}.py").exists()
        ):
            continue  # a file or a module of ours
        if (found := dotted.fullmatch(code)) and (path := tuple(found["key"].split(".")))[0] in SECTIONS:
            assert any(_matches(path, key) for key in KEYS), code


def _matches(path: tuple[str, ...], key: tuple[str, ...]) -> bool:
    free = next((number for number, part in enumerate(key) if part == ANY_NAME), len(key))
    if len(path) > len(key) and free == len(key):
        return key in {("tools", "exec", "env"), ("channels",), ("policy", "stricter")} and path[: len(key)] == key
    return len(path) == len(key) and all(b in (ANY_NAME, a) for a, b in zip(path, key, strict=True))


@table("page", PAGES)
def test_every_link_leads_somewhere(page: Page) -> None:
    for target in page.links():
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        there = (page.path.parent / name).resolve() if name else page.path
        assert there.exists(), target
        assert there.is_relative_to(house.ROOT), target
        assert not anchor or anchor in Page(there).anchors(), target


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [house.ROOT / "README.md"]
    while waiting:
        page = Page(waiting.pop())
        if page.path in reached:
            continue
        reached.add(page.path)
        links = [target.partition("#")[0] for target in page.links() if not target.startswith("https://")]
        waiting += [(page.path.parent / link).resolve() for link in links if link.endswith(".md")]
    assert {page.name for page in pages()} - {house.name_of(path) for path in reached} == set()


def test_what_runs_what_asks_is_the_same_on_every_page() -> None:
    tables = [
        [line for line in page.text.splitlines() if re.match(r"\| (row|low|medium|contained|high|critical) \|", line)]
        for page in pages()
    ]
    shown = [table for table in tables if table]
    assert len(shown) == 2
    assert shown[0] == shown[1]


def test_the_promises_of_the_readme_are_promises() -> None:
    named = {code for code in Page(house.ROOT / "README.md").codes() if code.startswith("P-")}
    page = (house.ROOT / "docs" / "promises.md").read_text("utf-8")
    promised = set(re.findall(r"^\| (P-[a-z0-9-]+) \|", page, re.MULTILINE))
    assert named
    assert named - promised == set()


def test_the_readme_is_short_and_begins_with_what_a_stranger_types_first() -> None:
    readme = Page(house.ROOT / "README.md")
    assert len(readme.text.split()) <= 900
    assert next(iter(readme.blocks())).text.startswith("git clone ")
    assert re.findall(r"docs/images/(\w+)\.svg", readme.text) == ["telegram", "terminal"]


QUESTION = re.compile(r"^(?:How|What|Who|Which|Where|When)\b[^?\n]*\?", re.MULTILINE)
"""The purpose of a page, as a person would ask for it."""
ANSWER = re.compile(r"^```\w+\n\S|`(?:goclaw\b|/\w)[^`\n]*`|\]\((?:#|[\w-]+\.md)", re.MULTILINE)
"""The first line of a block, a command, or a link to another section or page."""


def test_the_first_ten_pages_of_the_readme_ask_their_question_and_answer_it_within_ten_lines() -> None:
    readme = Page(house.ROOT / "README.md")
    names = list(dict.fromkeys(link for link in readme.links() if link.endswith(".md")))[:10]
    heads = {name: "\n".join((house.ROOT / name).read_text("utf-8").splitlines()[:10]) for name in names}
    wrong = {}
    for name, head in heads.items():
        asked = QUESTION.search(head)
        if asked is None or not ANSWER.search(head, asked.end()):
            wrong[name] = "has no question" if asked is None else "has no answer"
    assert len(heads) == 10 and wrong == {}


def test_each_of_the_first_ten_pages_answers_within_ten_lines() -> None:
    index = Page(house.ROOT / "docs" / "README.md")
    first = [name for name in index.links() if name.endswith(".md") and not name.startswith("..")][:10]
    heads = {name: "".join((index.path.parent / name).read_text("utf-8").splitlines()[:10]) for name in first}
    assert len(heads) == 10
    assert [name for name, head in heads.items() if "```" not in head and "In short:" not in head] == []


def test_the_index_of_docs_lists_every_page() -> None:
    index = Page(house.ROOT / "docs" / "README.md")
    listed = {Path(link).name for link in index.links()} | {"README.md"}
    assert {page.path.name for page in pages()} - listed == set()


def test_every_command_is_explained_somewhere() -> None:
    named = {words[0] for page in WRITTEN_BY_HAND for line in lines_of(page) for words in calls(line) if words}
    assert set(frame.COMMANDS) - named == set()


def test_every_slash_command_is_explained_somewhere() -> None:
    named = {found[0] for page in WRITTEN_BY_HAND for code in page.codes() if (found := SLASH.match(code))}
    assert {f"/{name}" for name in SLASH_COMMANDS} - named == set()


def test_every_tool_is_explained_somewhere() -> None:
    assert set(TOOLS) - {code for page in pages() for code in page.codes()} == set()


@table("page", PAGES)
def test_files_that_are_shown_can_be_used(page: Page, tmp_path: Path) -> None:
    for block in page.blocks():
        if block.language == "json":
            assert set(json.loads(block.text)) == {"users"}, block.place
            (tmp_path / "users.json").write_text(block.text)
            assert Users.read(tmp_path / "users.json").all(), block.place
        elif block.language == "yaml":
            assert yaml.safe_load(block.text), block.place
            (tmp_path / "config.yaml").write_text(block.text)
            load_config(tmp_path / "config.yaml")
