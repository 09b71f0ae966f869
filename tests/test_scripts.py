"""scripts/ and .ci/run on a machine of stand-ins: nothing here reaches the network or installs anything."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

from tests import house

LIMIT = 30
# What a POSIX system has; Python is deliberately not among them.
TOOLS = ("sh", "dirname", "cat", "mkdir", "chmod", "touch")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the scripts need, in a folder whose name has spaces."""
    folder = tmp_path / "a folder with spaces"
    for name in ("scripts", ".ci"):
        shutil.copytree(house.ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (house.ROOT / "pyproject.toml", *house.ROOT.glob("requirements*.lock")):
        shutil.copy(path, folder)
    return folder


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder that is the whole PATH: the plain tools and whatever a test adds."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        (folder / tool).symlink_to(str(shutil.which(tool)))
    return folder


def add(program: Path, body: str) -> Path:
    """Write an executable shell script."""
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return program


def start(command: list[str | Path], programs: Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command on the stand-in machine, without stdin."""
    return subprocess.run(
        command,
        cwd=cwd,
        env={"PATH": str(programs), "HOME": str(cwd), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def load(name: str) -> ModuleType:
    """Import a script that is no package."""
    spec = importlib.util.spec_from_file_location(name, house.ROOT / "scripts" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("script", ["run", "test", "lock", "release", "pin-images"])
def test_a_python_that_is_too_old_is_refused_with_the_remedy(checkout: Path, programs: Path, script: str) -> None:
    add(programs / "python3", 'case "$2" in *platform*) echo 3.9.2;; *) exit 1;; esac')
    done = start([checkout / "scripts" / script], programs, checkout)
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr
    assert "3.9.2" in done.stderr
    assert "apt-get install python3" in done.stderr


def test_a_newer_python_beside_an_old_python3_is_taken(checkout: Path, programs: Path) -> None:
    add(programs / "python3", "exit 1")
    newer = add(programs / "python3.13", "exit 0")
    done = start(["sh", "-c", '. "$0"; echo "$python"', checkout / "scripts" / "_python.sh"], programs, checkout)
    assert (done.returncode, done.stdout.strip()) == (0, str(newer))


def test_run_becomes_goclaw_where_the_caller_stands(checkout: Path, programs: Path, tmp_path: Path) -> None:
    """The same process (so that SIGTERM arrives), the caller's folder, and the arguments untouched."""
    add(programs / "python3.11", f'echo "$@" >> "{tmp_path}/set-up"')
    add(checkout / ".venv" / "bin" / "goclaw", 'echo "$$|$PWD|$1|$2"; exit 7')
    with subprocess.Popen(
        [checkout / "scripts" / "run", "send", "two words"],
        cwd=tmp_path,
        env={"PATH": str(programs)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        out, _ = process.communicate(timeout=LIMIT)
    assert out.strip() == f"{process.pid}|{tmp_path}|send|two words"
    assert process.returncode == 7
    assert (tmp_path / "set-up").read_text().splitlines()[-1] == f"{checkout}/scripts/_bootstrap.py run"


def test_run_stops_when_the_set_up_failed(checkout: Path, programs: Path) -> None:
    add(programs / "python3.11", 'test "$1" = -c')
    add(checkout / ".venv" / "bin" / "goclaw", "echo started")
    done = start([checkout / "scripts" / "run"], programs, checkout)
    assert (done.returncode, done.stdout) == (1, "")


def test_ci_runs_the_tests_from_anywhere(checkout: Path, programs: Path, tmp_path: Path) -> None:
    add(checkout / "scripts" / "test", 'echo "tested with $# arguments"; exit 3')
    done = start([checkout / ".ci" / "run"], programs, tmp_path)
    assert (done.returncode, done.stdout) == (3, "tested with 0 arguments\n")


@pytest.fixture
def bare_python(tmp_path: Path) -> dict[str, str]:
    """The environment of a Python without pip and without ensurepip, as Debian's python3-minimal is."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['pip'] = sys.modules['ensurepip'] = None\n")
    return {"PYTHONPATH": str(folder)}


def test_without_pip_and_venv_the_one_helpful_line_is_printed(
    checkout: Path, programs: Path, bare_python: dict[str, str]
) -> None:
    done = start([sys.executable, checkout / "scripts" / "_bootstrap.py", "uv"], programs, checkout, **bare_python)
    assert done.returncode == 1
    assert "apt-get install python3-venv" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_environment_is_made_once_and_again_only_when_its_lock_changes(
    checkout: Path, programs: Path, bare_python: dict[str, str]
) -> None:
    """The stand-in uv is found on PATH, the last resort of a Python that cannot install one."""
    log = checkout / "calls"
    add(programs / "uv", UV_STAND_IN.format(log=log))

    def set_up(**more: str) -> list[str]:
        log.write_text("")
        command: list[str | Path] = [sys.executable, checkout / "scripts" / "_bootstrap.py", "run"]
        done = start(command, programs, checkout, **bare_python, **more)
        assert done.returncode == 0, done.stderr
        return log.read_text().splitlines()

    filled = [
        "pip sync --quiet --require-hashes --python",
        "pip install --quiet --no-deps --python",
        "python -c import",
    ]
    assert set_up() == ["venv --quiet", *filled]
    assert set_up() == []
    with (checkout / "requirements.lock").open("a") as lock:
        lock.write("# changed\n")
    assert set_up() == filled
    # A Python that may not compile what it imports later finds everything compiled.
    (checkout / ".venv" / ".stamp").unlink()
    filled[0] = "pip sync --quiet --require-hashes --compile-bytecode"
    assert set_up(PYTHONDONTWRITEBYTECODE="1") == filled[:-1]


def test_what_is_compiled_at_the_set_up_can_be_imported() -> None:
    """A module of the list that was renamed would leave the first start to compile everything, in silence."""
    done = subprocess.run(
        [sys.executable, "-c", load("_bootstrap").FIRST_USED], cwd=house.ROOT, timeout=60, check=False
    )
    assert done.returncode == 0


@pytest.mark.promise("P-plugins-stay")
def test_plugins_that_a_new_lock_removes_are_named_with_the_command_that_keeps_them(
    checkout: Path, programs: Path, bare_python: dict[str, str]
) -> None:
    add(programs / "uv", UV_STAND_IN.format(log=checkout / "calls"))
    packages = checkout / ".venv" / "lib" / "python3.11" / "site-packages"
    for name, group, origin in [
        ("garden_tools", "goclaw.plugins", {"url": "file:///home/ann/my%20garden", "dir_info": {}}),
        ("of_git", "goclaw.plugins", {"url": "https://git.example.org/x.git", "vcs_info": {"vcs": "git"}}),
        ("of_an_index", "goclaw.plugins", None),
        ("other", "console_scripts", None),
        ("aiohttp", "goclaw.plugins", None),  # it is in the lock, and stays
    ]:
        described = packages / f"{name}-1.0.dist-info"
        described.mkdir(parents=True)
        (described / "entry_points.txt").write_text(f"[{group}]\ntools.x = x:x\n")
        if origin:
            (described / "direct_url.json").write_text(json.dumps(origin))
    done = start([sys.executable, checkout / "scripts" / "_bootstrap.py", "run"], programs, checkout, **bare_python)
    assert done.returncode == 0, done.stderr
    named = re.findall(r"the plugin (\w+) was .*`goclaw plugin add (.+)`", done.stderr)
    assert named == [
        ("garden_tools", "/home/ann/my garden"),
        ("of_an_index", "of-an-index"),
        ("of_git", "git+https://git.example.org/x.git"),
    ]


UV_STAND_IN = """\
case "$1 $2" in
"venv --quiet")
    echo "$1 $2"
    for last; do :; done
    mkdir -p "$last/bin"
    printf '#!/bin/sh\necho "python $1 ${{2%%%% *}}" >> "{log}"\n' > "$last/bin/python"
    chmod 755 "$last/bin/python";;
*) echo "$1 $2 $3 $4 $5";;
esac >> "{log}"
"""


def test_a_folder_that_cannot_be_written_is_a_message(checkout: Path, programs: Path) -> None:
    (checkout / ".tools").write_text("in the way")
    done = start([sys.executable, checkout / "scripts" / "_bootstrap.py", "uv"], programs, checkout)
    assert done.returncode == 1
    assert "must be able to write" in done.stderr


def test_one_failed_part_fails_the_whole_and_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    checks = load("_checks")
    assert checks.report([("lint", 1, 0.5), ("pytest", 0, 2.0)], ["no tmux"]) == 1
    assert checks.report([("lint", 0, 0.5)], []) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:5] == ["FAILED     0.5 s  lint", "ok         2.0 s  pytest", "note: no tmux"]


def test_a_part_that_is_missing_or_hangs_fails() -> None:
    checks = load("_checks")
    assert checks.run(["no-such-program-here"]) == 127
    assert checks.run([sys.executable, "-c", "import threading; threading.Event().wait()"], seconds=0.1) == 124


def pins(lock: str) -> dict[str, str]:
    """Return the version of every package a lock names."""
    text = (house.ROOT / lock).read_text()
    return dict(re.findall(r"^([a-z0-9._-]+)==([^\s;]+)", text, re.MULTILINE))


@pytest.mark.parametrize("lock", sorted(path.name for path in house.ROOT.glob("requirements*.lock")))
def test_every_pin_has_a_hash_and_no_address(lock: str) -> None:
    text = (house.ROOT / lock).read_text()
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in text


def test_what_ships_is_what_was_tested() -> None:
    shipped, tested = pins("requirements.lock"), pins("requirements-dev.lock")
    assert {name: version for name, version in shipped.items() if tested.get(name) != version} == {}
    for more in ("providers", "postgres"):
        locked = pins(f"requirements-{more}.lock")
        assert {name: version for name, version in shipped.items() if locked.get(name) != version} == {}


def test_the_lock_follows_the_dependencies_and_uv_its_build_backend() -> None:
    project = tomllib.loads((house.ROOT / "pyproject.toml").read_text())
    names = [re.split(r"[\[<>=!; ]", need)[0].lower() for need in project["project"]["dependencies"]]
    assert [name for name in names if name not in pins("requirements.lock")] == []
    (backend,) = map(Requirement, project["build-system"]["requires"])
    assert backend.name == "uv_build" and pins("requirements-uv.lock")["uv"] in backend.specifier


def test_the_extras_are_those_that_people_are_told_of_and_can_be_read() -> None:
    """That they resolve is tried in the long lane (`tests/acceptance/test_install.py`)."""
    project = tomllib.loads((house.ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    told = (house.ROOT / "docs" / "installation.md").read_text()
    assert set(extras) == {"dev", *re.findall(r"^\| `(\w+)` \|", told, re.MULTILINE)}
    needs = {name: {Requirement(need).name for need in extra} for name, extra in extras.items()}
    assert needs["plugins"] == {"uv"}
    assert needs["postgres"] == {"procrastinate", "psycopg"}


def test_no_default_dependency_brings_torch() -> None:
    assert not {"torch", "sentence-transformers"} & {*pins("requirements.lock"), *pins("requirements-providers.lock")}


@pytest.mark.house
def test_the_short_lane_runs_every_room_with_statements_of_its_own_on_postgres() -> None:
    makers = {
        f"goclaw.durable.store.database.{name}" for name in ("Statement", "insert_into", "insert_if", "upsert_into")
    }
    made = [path for path in house.python_files("goclaw") if makers & {found.module for found in house.imports(path)}]
    rooms = {"/".join(path.relative_to(house.PACKAGE).parts[:2]) for path in made}
    assert rooms - {"program/ops"} == set(load("_checks").WITH_STATEMENTS)


def test_the_scripts_are_executable() -> None:
    for script in ("run", "test", "bench", "lock", "release", "pin-images"):
        assert os.access(house.ROOT / "scripts" / script, os.X_OK), script
    assert os.access(house.ROOT / ".ci" / "run", os.X_OK)
