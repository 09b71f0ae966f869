"""Each part of a package is looked at before the package is taken."""

from pathlib import Path

import pytest

from goclaw.program.ops.plugins.packages import pin, requirement_of
from goclaw.program.ops.plugins.trial import try_package
from goclaw.program.ops.plugins.uv import InstallError, environment, refusal
from tests.plugin import install, packages
from tests.program.ops.plugins.projects import project
from tests.tools.toolkit.one_file import DECLARED, TOOL

__all__ = ["packages"]

pytestmark = pytest.mark.promise("P-plugins-stay")


@pytest.mark.parametrize(
    ("source", "points", "faults"),
    [
        (TOOL.format(name="garden", says=""), {"tools.garden": "one:garden"}, []),
        (DECLARED, {"agents.gardener": "one:GARDENER", "toolsets.garden.beds": "one:BEDS"}, []),
        (
            TOOL.format(name="garden", says=""),
            {"tools.garden": "one:nope"},
            ["tools.garden: one:nope: cannot be loaded"],
        ),
        (TOOL.format(name="read", says=""), {"tools.read": "one:read"}, ["tools.read: the name is taken: built in"]),
        (TOOL.format(name="garden", says=""), {"tool.garden": "one:garden"}, ["did you mean `tools.garden`?"]),
        (TOOL.format(name="garden", says=""), {"agents.garden": "one:garden"}, ["is a Tool, not a AgentPart"]),
        (f"__goclaw_api__ = 2\n{DECLARED}", {"toolsets.garden.beds": "one:BEDS"}, ["written for version 2"]),
        (
            "raise SystemExit(4)",
            {"commands.x": "one:X", "hooks.y": "one:Y"},
            ["commands.x: SystemExit", "hooks.y: System"],
        ),
        ("", {"api": "one:X"}, ["should be `section.name`"]),
    ],
)
def test_every_fault_of_a_package_is_named(
    source: str, points: dict[str, str], faults: list[str], packages: Path
) -> None:
    install(packages, "one-plugin", {"one": source}, points)
    found = try_package(str(packages), "one-plugin")
    assert sorted(found.parts) == sorted(points)
    assert len(found.faults) == len(faults)
    for fault, part in zip(found.faults, faults, strict=True):
        assert part in fault


def test_a_name_that_another_plugin_has_is_taken(packages: Path) -> None:
    install(packages, "one-plugin", {"one": TOOL.format(name="garden", says="")}, {"tools.garden": "one:garden"})
    install(packages, "two-plugin", {"two": TOOL.format(name="garden", says="")}, {"tools.garden": "two:garden"})
    assert try_package(str(packages), "one-plugin").faults == ("tools.garden: the name is taken: by two-plugin",)


@pytest.mark.parametrize(
    ("text", "requirement"),
    [
        ("garden-tools", "garden-tools"),
        ("garden[roses]>=2,<3", "garden[roses]>=2,<3"),
        ("git+https://git.example.org/garden.git@v2", "git+https://git.example.org/garden.git@v2"),
        ("https://git.example.org/garden.git", "git+https://git.example.org/garden.git"),
        ("git@git.example.org:ann/garden.git", "git+ssh://git@git.example.org/ann/garden.git"),
        ("https://example.org/garden-1.0-py3-none-any.whl", "https://example.org/garden-1.0-py3-none-any.whl"),
    ],
)
def test_a_source_is_what_people_mean(text: str, requirement: str) -> None:
    assert requirement_of(text) == requirement


def test_a_path_is_absolute_and_must_be_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    project(tmp_path / "garden")
    (tmp_path / "empty").mkdir()
    (tmp_path / "one.py").write_text("")
    assert requirement_of("./garden") == str(tmp_path / "garden")
    for text, said in [
        ("./nothing", "there is no such folder or file"),
        ("./empty", "without a pyproject.toml"),
        ("./one.py", "name it in `plugins` of the configuration"),
        ("--index-url", "should be the name of a package"),
        ("-r requirements.txt", "should be the name of a package"),
        ("", "should be the name of a package"),
    ]:
        with pytest.raises(InstallError, match=said):
            requirement_of(text)


def test_a_pin_is_the_commit_or_the_version() -> None:
    git: dict[str, object] = {
        "url": "https://git.example.org/x.git",
        "vcs_info": {"vcs": "git", "commit_id": "abc"},
        "subdirectory": "a",
    }
    assert pin("git+x", "x", "1", git) == "x @ git+https://git.example.org/x.git@abc#subdirectory=a"
    assert pin("/home/x", "x", "1", {"url": "file:///home/x", "dir_info": {}}) == "/home/x"
    assert pin("x[y]>=1", "x", "1.5", {}) == "x[y]==1.5"


def test_uv_gets_no_key_of_ours_and_the_index_of_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "ANTHROPIC_API_KEY": "sk-1",
        "TELEGRAM_BOT_TOKEN": "5:x",
        "GOCLAW_HTTP__PORT": "1",
        "PIP_INDEX_URL": "https://index.example.org/simple",
        "HTTPS_PROXY": "http://proxy:3128",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    found = environment(tmp_path)
    assert not {"ANTHROPIC_API_KEY", "TELEGRAM_BOT_TOKEN", "GOCLAW_HTTP__PORT"} & found.keys()
    assert found["UV_DEFAULT_INDEX"] == "https://index.example.org/simple"
    assert found["HTTPS_PROXY"] == "http://proxy:3128"


def test_a_refusal_that_is_no_conflict_keeps_uvs_own_words() -> None:
    output = "Using CPython 3.11\nResolved 2 packages\nerror: No solution found\n  cause: Because x was not found\n"
    assert refusal(output, {}) == "No solution found; cause: Because x was not found"
    assert refusal("", {}) == "uv failed without a message"
