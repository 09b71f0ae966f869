"""The real uv installs plugins: behind our packages, wholly or not at all, and again when those have changed."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from goclaw.common.config.load import load_config
from goclaw.common.core import catalog
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.plugin_folder import (
    FOLDER,
    SITE,
    InstalledPlugin,
    activate,
    deactivate,
    own_path,
    read_record,
    write_record,
)
from goclaw.program.ops.plugins.installing import Plugins, open_plugins
from goclaw.program.ops.plugins.uv import InstallError
from goclaw.tools.toolkit.parts import parts_of
from goclaw.tools.toolkit.sources import open_sources
from tests.plugin import install
from tests.program.ops.plugins.projects import commit, project, wheel
from tests.tools.toolkit.one_file import TOOL

pytestmark = [pytest.mark.promise("P-plugins-stay"), pytest.mark.slow, pytest.mark.timeout(180)]


def add(state: Path, *sources: Path | str, editable: bool = False) -> Sequence[InstalledPlugin]:
    with open_plugins(state, print) as plugins:
        return plugins.add([str(source) for source in sources], editable=editable)


def restore(state: Path) -> Plugins:
    with open_plugins(state, print) as plugins:
        plugins.restore()
    return plugins


def folders(state: Path) -> list[str]:
    return sorted(path.name for path in (state / FOLDER).glob(f"{SITE}*"))


def known(state: Path) -> dict[str, str]:
    """The versions that are recorded; a fault for those that are left out."""
    return {each.name: each.fault or each.version for each in read_record(state).plugins}


async def tools_of(state: Path) -> tuple[list[str], dict[str, str]]:
    """The tools and the faults of a daemon with that state folder."""
    loaded = load_config(overrides={"state_dir": str(state)}, environ={}, container_secrets=state)
    async with open_sources(loaded.config, SteppedClock(), parts_of(loaded.packaged)) as sources:
        names = [tool.spec.name for tool in sources.tools()]
        return names[len(catalog.TOOLS) :], dict(sources.faults)


@pytest.fixture
def our_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages of our environment, with `house-library` 1.0 in it."""
    folder = tmp_path / "ours" / "site-packages"
    install(folder, "house-library", {}, {})
    monkeypatch.syspath_prepend(folder)
    return folder


def upgrade(our_library: Path) -> None:
    """Have `house-library` 2.0 in our environment instead."""
    (before,) = our_library.glob("*.dist-info")
    after = before.rename(before.with_name("house_library-2.0.dist-info"))
    (after / "METADATA").write_text("Metadata-Version: 2.1\nName: house-library\nVersion: 2.0\n")


async def test_a_package_is_added_behind_ours_used_and_removed(state: Path, tmp_path: Path) -> None:
    source = project(tmp_path / "my garden", needs=["goclaw", "pydantic>=2"])
    (added,) = add(state, source)
    assert (added.name, added.version, added.source) == ("garden-tools", "1.0", str(source))
    assert added.parts == ("tools.garden",) and len(added.digest) == 64
    assert await tools_of(state) == (["garden"], {})
    (site,) = (state / FOLDER / name for name in folders(state))
    assert sys.path[-1] == str(site) and str(site) not in own_path()
    assert {path.name for path in site.glob("*.dist-info")} == {"garden_tools-1.0.dist-info"}, "ours are not doubled"
    assert read_record(state).stamp and (state / FOLDER).stat().st_mode & 0o077 == 0
    deactivate()
    with open_plugins(state, print) as plugins:
        assert [each.name for each in plugins.remove(["Garden_Tools"])] == ["garden-tools"]
    assert await tools_of(state) == ([], {}) and folders(state) == [] and known(state) == {}


def test_what_does_not_go_with_our_packages_is_refused_with_the_reason(
    state: Path, tmp_path: Path, our_library: Path
) -> None:
    add(state, project(tmp_path / "garden"))
    before = folders(state)
    for needs, said in [
        (["house-library<1"], "beds 1.0 needs house-library<1, but GoClaw has house-library 1.0"),
        (["house-library[x]>=3,<4"], "beds 1.0 needs house-library"),
        (["nothing-of-that-name"], "nothing-of-that-name"),
    ]:
        with pytest.raises(InstallError) as raised:
            add(state, project(tmp_path / "beds", "beds", needs=needs))
        assert said in str(raised.value)
    assert folders(state) == before and known(state) == {"garden-tools": "1.0"}


@pytest.mark.parametrize(
    ("points", "source", "said"),
    [
        ({"tools.garden": "bad:garden"}, "1 / 0", "bad tools.garden: ZeroDivisionError: division by zero"),
        ({"tools.garden": "bad:garden"}, "import os\nos._exit(3)", "its import ends the process (exit code 3)"),
        ({}, "", "has no entry points in the group `goclaw.plugins`"),
        ({"tools.other": "bad:garden"}, TOOL.format(name="garden", says=""), "it calls itself garden, not other"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_refused_and_leaves_nothing(
    points: dict[str, str], source: str, said: str, state: Path, tmp_path: Path
) -> None:
    with pytest.raises(InstallError) as raised:
        add(state, project(tmp_path / "bad", "bad", points=points, source=source))
    assert said in str(raised.value)
    assert folders(state) == [] and known(state) == {}


@pytest.mark.long
async def test_a_new_lock_has_plugins_installed_again_and_those_that_do_not_fit_left_out(
    state: Path, tmp_path: Path, our_library: Path
) -> None:
    fits = project(tmp_path / "fits", "fits", needs=["house-library>=1"], points={"tools.garden": "fits:garden"})
    other = TOOL.format(name="other", says="")
    needs_old = project(
        tmp_path / "old",
        "needs-old",
        needs=["house-library<2"],
        points={"tools.other": "needs_old:other"},
        source=other,
    )
    add(state, fits, needs_old)
    assert await tools_of(state) == (["garden", "other"], {})
    before = folders(state)
    upgrade(our_library)
    names, faults = await tools_of(state)
    assert names == [] and sorted(faults) == ["plugin fits", "plugin needs-old"]
    assert all("the next start of the daemon restores it" in why for why in faults.values())
    assert read_record(state).is_due(now=0)
    restore(state)
    names, faults = await tools_of(state)
    assert names == ["garden"] and list(faults) == ["plugin needs-old"] and folders(state) != before
    assert "needs-old 1.0 needs house-library<2, but GoClaw has house-library 2.0" in faults["plugin needs-old"]
    # It is kept in the record, tried again later, and back when it fits.
    record = read_record(state)
    assert not record.is_due(now=record.tried + 1) and record.is_due(now=record.tried + 1000)
    project(
        needs_old, "needs-old", "1.1", needs=["house-library"], points={"tools.other": "needs_old:other"}, source=other
    )
    restore(state)
    assert await tools_of(state) == (["garden", "other"], {})


@pytest.mark.long
def test_git_is_held_at_its_commit_until_it_is_updated(state: Path, tmp_path: Path) -> None:
    repository = project(tmp_path / "repository")
    first = commit(repository)
    (added,) = add(state, f"git+file://{repository}")
    assert added.pinned == f"garden-tools @ git+file://{repository}@{first}"
    project(repository, version="2.0")
    second = commit(repository)
    restore(state)
    assert known(state) == {"garden-tools": "1.0"}
    with open_plugins(state, print) as plugins:
        ((before, after),) = plugins.update([])
    assert (before.version, after.version) == ("1.0", "2.0") and after.pinned.endswith(f"@{second}")


@pytest.mark.long
def test_of_an_index_the_version_and_its_files_stay_until_an_update(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = tmp_path / "wheels"
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    source = project(tmp_path / "garden")
    built = wheel(source, wheels)
    (added,) = add(state, "garden-tools>=1")
    assert (added.source, added.pinned) == ("garden-tools>=1", "garden-tools==1.0")
    wheel(project(source, version="1.5"), wheels)
    restore(state)
    assert known(state) == {"garden-tools": "1.0"}
    built.unlink()
    wheel(project(source, version="1.0", source=TOOL.format(name="garden", says="something else")), wheels)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "another cache"))
    restore(state)
    assert known(state) == {"garden-tools": "1.0"}, "what is in force stays"
    write_record(state, replace(read_record(state), stamp="another Python"))
    restore(state)
    assert "have changed since you added it" in known(state)["garden-tools"]
    with open_plugins(state, print) as plugins:
        plugins.update(["garden-tools"])
    assert known(state) == {"garden-tools": "1.5"}


@pytest.mark.long
async def test_a_folder_is_taken_again_as_it_is_now(state: Path, tmp_path: Path) -> None:
    source = project(tmp_path / "garden")
    add(state, source)
    (source / "garden_tools.py").write_text(TOOL.format(name="garden", says="something else"))
    (again,) = add(state, source)
    assert again.name == "garden-tools" and known(state) == {"garden-tools": "1.0"}
    (site,) = folders(state)
    assert "something else" in (state / FOLDER / site / "garden_tools.py").read_text()


@pytest.mark.long
async def test_what_is_in_force_is_lost_neither_by_a_retry_nor_by_the_removal_of_another(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = TOOL.format(name="other", says="")
    beds = project(tmp_path / "beds", "beds", points={"tools.other": "beds:other"}, source=other)
    add(state, project(tmp_path / "garden"), beds)
    record = read_record(state)
    failing = InstalledPlugin("gone", str(tmp_path / "gone"), fault="is not used: before")
    write_record(state, replace(record, plugins=(*record.plugins, failing)))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "another cache"))
    for folder in (tmp_path / "garden", beds):
        folder.rename(folder.with_name(f"{folder.name}-moved"))
    restore(state)
    assert folders(state) == [record.folder] and (await tools_of(state))[0] == ["garden", "other"]
    assert "a later start tries again" in known(state)["gone"] and known(state)["beds"] == "1.0"
    deactivate()
    with open_plugins(state, print) as plugins:
        plugins.remove(["beds"])
    assert (await tools_of(state))[0] == ["garden"] and folders(state) != [record.folder]
    assert set(known(state)) == {"garden-tools", "gone"}


def test_a_folder_that_a_process_uses_stays_until_it_has_ended(state: Path, tmp_path: Path) -> None:
    source = project(tmp_path / "garden")
    add(state, source)
    (used,) = folders(state)
    code = "import sys; from pathlib import Path; from goclaw.common.core.plugin_folder import activate; "
    code += "activate(Path(sys.argv[1])); print('on', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(state)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "on\n"
        add(state, source)
        assert used in folders(state) and len(folders(state)) == 2
        process.communicate("", timeout=30)
    with open_plugins(state, print) as plugins:
        plugins.sweep()
    assert used not in folders(state) and len(folders(state)) == 1


KILLED = """
import os, signal, sys
from pathlib import Path
import goclaw.program.ops.plugins.installing as installing

point, state, source = sys.argv[1:]

def dying(name, before):
    real = getattr(installing, name)
    def wrapped(*arguments, **named):
        if before:
            os.kill(os.getpid(), signal.SIGKILL)
        real(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(installing, name, wrapped)

name, _, when = point.partition(" ")
dying(name, when == "before")
with installing.open_plugins(Path(state), print) as plugins:
    plugins.add([source])
"""


@pytest.mark.long
async def test_a_kill_at_every_step_leaves_the_old_or_the_new(state: Path, tmp_path: Path) -> None:
    source = project(tmp_path / "garden")
    add(state, source)
    project(source, version="2.0")
    for point, version in [
        ("run_uv before", "1.0"),
        ("run_uv after", "1.0"),
        ("try_out after", "1.0"),
        ("write_record before", "1.0"),
        ("write_record after", "2.0"),
        ("_remove_unused after", "2.0"),
    ]:
        command = [sys.executable, "-c", KILLED, point, str(state), str(source)]
        run = partial(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
        done = await asyncio.to_thread(run)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert known(state) == {"garden-tools": version}, point
        assert await tools_of(state) == (["garden"], {}), point
        (point_of_entry,) = entry_points(group="goclaw.plugins", name="tools.garden")
        assert point_of_entry.dist is not None and point_of_entry.dist.version == version
        deactivate()
    add(state, source)
    assert len(folders(state)) == 1, "what the kills left behind is gone"


@pytest.mark.long
async def test_an_editable_folder_is_used_where_it_is(state: Path, tmp_path: Path) -> None:
    source = project(tmp_path / "garden")
    (added,) = add(state, source, editable=True)
    assert added.editable and not added.digest
    (site,) = folders(state)
    assert not (state / FOLDER / site / "garden_tools.py").exists()
    (source / "garden_tools.py").write_text(TOOL.format(name="garden", says="as it is now"))
    assert await tools_of(state) == (["garden"], {})
    assert Path(str(sys.modules["garden_tools"].__file__)).parent == source
    assert sys.path[-2:] == [str(state / FOLDER / site), str(source)]
    restore(state)
    assert read_record(state).plugins[0].editable and len(folders(state)) == 2, "this process is on the one before"
    with pytest.raises(InstallError, match="only a folder can be editable"):
        add(state, "garden-tools", editable=True)


def test_without_uv_the_remedy_is_named(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A checkout's own uv is beside the package, that of an environment beside its Python.
    for name in ("goclaw.program.ops.plugins.uv.goclaw.__file__", "goclaw.program.ops.plugins.uv.sys.executable"):
        monkeypatch.setattr(name, str(tmp_path / "elsewhere" / "deep" / "x"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InstallError, match=r"its extra `plugins` \(`goclaw\[plugins\]`\)"):
        add(state, project(tmp_path / "garden"))
    assert folders(state) == []


@pytest.mark.long
def test_a_folder_that_was_lost_is_named_and_made_anew(state: Path, tmp_path: Path) -> None:
    add(state, project(tmp_path / "garden"))
    (lost,) = folders(state)
    (state / FOLDER / lost).rename(tmp_path / "elsewhere")
    ((name, fault),) = ((each.name, each.fault) for each in activate(state))
    assert name == "garden-tools" and "its files are missing" in fault and read_record(state).is_due(now=0)
    restore(state)
    assert activate(state) == () and len(folders(state)) == 1
