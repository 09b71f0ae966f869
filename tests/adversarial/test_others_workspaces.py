"""Class `permission`: with `workspaces: per-person`, what one person keeps is reached by no other, in either tier."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.adversarial.target import Call, Target, edit, read, run, write

pytestmark = pytest.mark.sandbox
SECRET = "swordfish"
"""What Ann keeps. It must reach nobody."""
LIKE_IT = "sword[f]ish"
"""Finds it, and is not it."""
USERS = {"tui:ann": {}, "tui:bob": {}, "tui:eve": {"workspace": "shared"}}
KEEPING: list[Call] = [
    write("plan.md", f"{SECRET} of the plan\n"),
    write("MEMORY.md", f"The {SECRET} of the garden\n"),
    write("memory/tea.md", f"The {SECRET} of the tea\n"),
    write("inbox/letter.txt", SECRET),
    write("shared/news.md", "For everybody: beans\n"),
    write("shared/memory/soup.md", "Everybody likes soup\n"),
    {"tool": "memory_write", "input": {"key": "pin", "value": SECRET}},
    run("mkdir deep; ln -s ../plan.md deep/link; ln -s ../../people/tui.ann shared/way; chmod 0777 . deep plan.md"),
]


@pytest.fixture(params=["bubblewrap", pytest.param("broker", marks=pytest.mark.long)])
def house(target: Target, request: pytest.FixtureRequest) -> Target:
    """Ann has kept something; Bob and Eve are listed, too."""
    sandbox = f"tools: {{exec: {{sandbox: {request.param}}}}}"
    target.config.write_text(f"workspace: work\nstate_dir: state\nworkspaces: per-person\n{sandbox}\n")
    (target.state / "users.json").write_text(json.dumps({"users": USERS}))
    kept = as_one(target, "tui:ann", *KEEPING)
    if "sandbox" in kept[-1].get("error", ""):
        pytest.skip(kept[-1]["error"])
    assert [answer for answer in kept if "error" in answer] == []
    return target


def as_one(target: Target, key: str, *calls: Call) -> list[dict[str, Any]]:
    return target.calls(*calls, arguments=("--user", key))


def of(target: Target, name: str) -> Path:
    return target.state / "people" / f"tui.{name}"


def glob(pattern: str, path: str = ".") -> Call:
    return {"tool": "glob", "input": {"pattern": pattern, "path": path}}


def search(pattern: str, path: str = ".") -> Call:
    return {"tool": "search", "input": {"pattern": pattern, "path": path}}


@pytest.mark.promise("P-workspaces-per-person")
def test_no_tool_reaches_into_the_workspace_of_another(house: Target) -> None:
    ann = of(house, "ann")
    ways = [
        f"{ann}/plan.md", "../tui.ann/plan.md", "shared/../../tui.ann/plan.md", "shared/way/plan.md",
        "@../tui.ann/plan.md", f"{house.workspace}/../state/people/tui.ann/plan.md", "own/plan.md",
        "shared/own/plan.md",
    ]  # fmt: skip
    as_one(house, "tui:bob", run(f"ln -s {ann} own; ln -s {ann} shared/own; rm shared; ln -s {ann} shared"))
    calls: list[Call] = [
        *(call for way in ways for call in (read(way), write(way, "x"), edit(way, "plan", "x"), search(".", way))),
        *(call for way in ways for call in (glob("**", way.rpartition("/")[0]), run("pwd", working_dir=way[:-8]))),
        *(call for word in (LIKE_IT, ".*") for call in (search(word), search(word, "shared"))),
        *(glob(pattern) for pattern in ("**", "**/*.md", "shared/**", "{own,shared}/**")),
        *({"tool": "memory_search", "input": {"query": query}} for query in (LIKE_IT, "garden tea")),
        {"tool": "memory_list", "input": {}},
        {"tool": "memory_get", "input": {"path": "memory/tea.md"}},
        {"tool": "memory_read", "input": {"key": "pin"}},
    ]
    said = json.dumps(as_one(house, "tui:bob", *calls))
    assert SECRET not in said and "letter.txt" not in said
    assert (ann / "plan.md").read_text() == f"{SECRET} of the plan\n"
    assert not (ann / "x").exists() and [path.name for path in (ann / "deep").iterdir()] == ["link"]


@pytest.mark.promise("P-workspaces-per-person")
def test_no_command_reaches_into_the_workspace_of_another(house: Target) -> None:
    ann = of(house, "ann")
    lines = [
        f"cat {ann}/plan.md {ann}/*.md ../tui.ann/plan.md shared/way/plan.md",
        f"ls -R {ann} ..; cd {ann} && cat plan.md",
        f"ln {ann}/plan.md got; ln {ann}/plan.md shared/got; ln -s {ann} in; cat in/plan.md got shared/got",
        f"echo x > {ann}/made; echo x >> {ann}/plan.md; rm -rf {ann}; mv {ann} taken; chmod 0 {ann}/plan.md",
        f"rm shared; ln -s {ann} shared; cat shared/plan.md; rm shared; mkdir shared; ls shared",
        f"cat /proc/*/cwd/plan.md /proc/*/root{ann}/plan.md /proc/self/root{ann}/plan.md",
        f"python3 -c 'import os;print(open(\"{ann}/plan.md\").read())' 2>/dev/null; grep -r {LIKE_IT} .. shared/",
        f"(setsid sh -c 'cat {ann}/plan.md > shared/late; cat {ann}/plan.md > late' &); cat shared/late late",
    ]  # fmt: skip
    answers = as_one(house, "tui:bob", *map(run, lines))
    assert all("content" in answer for answer in answers), answers
    assert SECRET not in json.dumps(answers)
    assert (ann / "plan.md").read_text() == f"{SECRET} of the plan\n" and not (ann / "made").exists()
    assert (ann / "plan.md").stat().st_mode & 0o777 == 0o777
    for place in (house.workspace, of(house, "bob")):
        assert not any(SECRET in path.read_text() for path in place.rglob("*") if path.is_file())


@pytest.mark.promise("P-workspaces-per-person")
def test_the_shared_folder_belongs_to_everybody_in_tools_commands_and_memory(house: Target) -> None:
    bob = as_one(
        house, "tui:bob",
        read("shared/news.md"), read(str(house.workspace / "news.md")), edit("shared/news.md", "beans", "peas"),
        run("cat shared/news.md; echo mine > shared/bob.txt; chmod 600 shared/bob.txt; cd shared && cat bob.txt"),
        run("cat news.md", working_dir="shared"), search("peas"), search("peas", "shared"), glob("shared/*.md"),
        {"tool": "memory_search", "input": {"query": "soup"}},
        {"tool": "memory_write", "input": {"key": "door", "value": "green", "shared": True}},
    )  # fmt: skip
    said = [answer["content"] for answer in bob]
    assert all(word in text for text, word in zip(said[3:], [*["peas"] * 4, "shared/news.md"], strict=False)), said
    assert "shared/memory/soup.md:1-1" in said[8]
    by_ann = as_one(
        house, "tui:ann", read("shared/bob.txt"), {"tool": "memory_read", "input": {"key": "door", "shared": True}}
    )
    assert "mine" in by_ann[0]["content"] and "green" in by_ann[1]["content"]
    by_eve = as_one(house, "tui:eve", read("news.md"), run("pwd"))
    assert "peas" in by_eve[0]["content"] and str(house.workspace) in by_eve[1]["content"]


@pytest.mark.promise("P-workspaces-per-person")
def test_publishing_ones_own_file_by_a_second_name_shows_that_file_and_no_other(house: Target) -> None:
    """The broker lets a command make one; between the mounts of bubblewrap the kernel refuses."""
    os.link(of(house, "ann") / "plan.md", house.workspace / "second.md")
    [told, found] = as_one(house, "tui:bob", read("shared/second.md"), run("cat shared/second.md"))
    assert SECRET in told["content"] and SECRET in found["content"]
    os.link(house.state / "users.json", house.workspace / "users.md")
    [told, found] = as_one(house, "tui:bob", read("shared/users.md"), run("cat shared/users.md"))
    assert told["error"].startswith("permission denied") and "another name of a file of the daemon" in found["error"]
