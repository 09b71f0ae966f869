"""What `@` offers: the likeliest paths first, nothing that may not be read, and quickly."""

import asyncio
import cProfile
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from goclaw.common.core.clock import SteppedClock
from goclaw.common.workspace import PathCompleter, Workspace
from goclaw.common.workspace.completion import KEPT_SECONDS, _candidates, rank_paths
from tests.common.workspace.ways import WAYS, force
from tests.tables import table


@pytest.fixture(params=WAYS)
async def workspace(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Workspace]:
    force(request.param, monkeypatch)
    (tmp_path / "workspace").mkdir()
    async with Workspace(tmp_path / "workspace", [tmp_path / "goclaw.db"]) as opened:
        yield opened


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def completion(clock: SteppedClock) -> PathCompleter:
    return PathCompleter(clock)


def make(workspace: Workspace, *names: str) -> None:
    for name in names:
        path = workspace.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


HOUSE = [
    "README.md",
    "docs/terminal.md",
    "goclaw/app.py",
    "goclaw/tui/app.py",
    "goclaw/tui/widgets/status_bar.py",
    "tests/tui/test_app.py",
    "wrapper.sh",
]


@table(
    "begun, expected",
    [
        ("", ["README.md", "docs/", "goclaw/", "tests/", "wrapper.sh"]),
        ("app", ["goclaw/app.py", "goclaw/tui/app.py", "wrapper.sh", "tests/tui/test_app.py"]),
        ("APP.PY", ["goclaw/app.py", "goclaw/tui/app.py", "tests/tui/test_app.py"]),
        ("goclaw/t", ["goclaw/tui/", "goclaw/tui/app.py", "goclaw/tui/widgets/", "goclaw/tui/widgets/status_bar.py"]),
        ("goclaw/tui/", ["goclaw/tui/app.py", "goclaw/tui/widgets/", "goclaw/tui/widgets/status_bar.py"]),
        ("./docs/", ["docs/terminal.md"]),
        ("tui/te", ["tests/tui/test_app.py"]),
        ("stba", ["goclaw/tui/widgets/status_bar.py"]),
        ("gtwsb", ["goclaw/tui/widgets/status_bar.py"]),
        ("termi", ["docs/terminal.md"]),
        ("nothing", []),
        ("../", []),
        ("docs/../..", []),
        ("/", []),
        ("x" * 4_096, []),
    ],
)
async def test_the_likeliest_come_first(
    begun: str, expected: Sequence[str], workspace: Workspace, completion: PathCompleter
) -> None:
    make(workspace, *HOUSE)

    assert (await completion.matching(workspace, begun))[: len(expected) or 1] == expected


async def test_an_absolute_path_below_the_workspace_is_understood(
    workspace: Workspace, completion: PathCompleter
) -> None:
    make(workspace, *HOUSE)

    assert await completion.matching(workspace, f"{workspace.root}/READ") == ["README.md"]
    assert await completion.matching(workspace, f"{workspace.root.parent}/workspace2/READ") == []


async def test_what_begins_with_a_dot_is_found_by_who_types_it(workspace: Workspace, completion: PathCompleter) -> None:
    make(workspace, ".github/workflows/ci.yml", ".env", "docs/.hidden", "ci.md")

    assert await completion.matching(workspace, "ci") == ["ci.md"]
    assert (await completion.matching(workspace, "."))[:3] == [".env", ".github/", "docs/.hidden"]
    assert await completion.matching(workspace, ".github/ci") == [".github/workflows/ci.yml"]
    assert await completion.matching(workspace, "docs/.") == ["docs/.hidden"]


@pytest.mark.parametrize("ignored", ["node_modules", ".git", ".venv", "__pycache__", "build"])
async def test_what_is_ignored_is_found_by_who_types_its_folder(
    ignored: str, workspace: Workspace, completion: PathCompleter
) -> None:
    make(workspace, f"{ignored}/package/part.txt", "src/part.txt")
    (workspace.root / ".gitignore").write_text("/build\n")

    assert await completion.matching(workspace, "part") == ["src/part.txt"]
    assert await completion.matching(workspace, f"{ignored}/p") == [f"{ignored}/package/"]
    assert await completion.matching(workspace, f"{ignored}/package/") == [f"{ignored}/package/part.txt"]


@pytest.mark.promise("P-paths-inside")
async def test_no_link_no_device_and_no_file_of_the_daemon_is_offered(
    workspace: Workspace, completion: PathCompleter, tmp_path: Path
) -> None:
    (tmp_path / "goclaw.db").write_text("secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").touch()
    make(workspace, "fine")
    (workspace.root / "hard").hardlink_to(tmp_path / "goclaw.db")
    (workspace.root / "link").symlink_to(tmp_path / "outside")
    (workspace.root / "near").symlink_to("fine")
    (workspace.root / ".gitignore").symlink_to(tmp_path / "outside" / "secret")
    os.mkfifo(workspace.root / "pipe")

    assert await completion.matching(workspace, "") == ["fine"]
    for begun in ("hard", "link/", "link/s", "pipe", "../outside/", "near"):
        assert await completion.matching(workspace, begun) == []


async def test_names_that_no_tool_takes_and_no_terminal_should_show_are_not_offered(
    workspace: Workspace, completion: PathCompleter
) -> None:
    make(workspace, "a\nb", "a\x1b[31m", "a\u202eb", "fine", "Käse mit ö")
    (workspace.root / os.fsdecode(b"a\xff")).touch()

    assert await completion.matching(workspace, "") == ["Käse mit ö", "fine"]
    assert await completion.matching(workspace, "KA\u0308SE") == ["Käse mit ö"]  # another way to write the Ä


async def test_a_pipe_in_place_of_a_gitignore_is_not_waited_for(
    workspace: Workspace, completion: PathCompleter
) -> None:
    make(workspace, "fine")
    os.mkfifo(workspace.root / ".gitignore")

    async with asyncio.timeout(10):
        assert await completion.matching(workspace, "") == ["fine"]


async def test_a_new_file_is_found_after_some_seconds_and_a_listing_is_used_until_then(
    workspace: Workspace, completion: PathCompleter, clock: SteppedClock
) -> None:
    assert await completion.matching(workspace, "n") == []
    make(workspace, "new")
    assert await completion.matching(workspace, "n") == []
    clock.advance(KEPT_SECONDS)
    assert await completion.matching(workspace, "n") == ["new"]


async def test_a_listing_is_bounded_and_near_ones_come_first(workspace: Workspace) -> None:
    make(workspace, *(f"far/away/{number}" for number in range(50)), *(f"near/{number}" for number in range(5)))
    make(workspace, *(f".hidden/{number}" for number in range(5)))

    paths = await workspace.paths(limit=20)

    assert len(paths) == 20
    assert paths[:8] == [".hidden/", "far/", "near/", "far/away/", "near/0", "near/1", "near/2", "near/3"]
    assert not any(path.startswith(".hidden/") for path in paths[1:])


async def test_one_of_many_answers_is_no_more_than_the_limit(workspace: Workspace, completion: PathCompleter) -> None:
    make(workspace, *(f"file_{number}" for number in range(80)))

    assert len(await completion.matching(workspace, "file")) == 50


def test_of_thousands_of_files_the_likeliest_is_found_in_steps_that_grow_as_they_do() -> None:
    def steps(modules: int) -> int:
        modules_of = [f"package_{number % 10}/module_{number}" for number in range(modules)]
        paths = [f"{module}/file_{each}.py" for module in modules_of for each in range(50)]
        with cProfile.Profile() as profile:
            found = rank_paths(_candidates(paths), "pkg7f49", 50)
        assert found[0] == "package_7/module_7/file_49.py"
        return sum(entry.callcount for entry in profile.getstats())

    steps(10)  # what is done once
    assert steps(100) < 3 * steps(50)
