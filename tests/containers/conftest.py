"""The engine, with our base images in it, and a checkout to run Compose in."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers import compose, images
from tests.containers.engine import ROOT, Engine, Missing, running_engine
from tests.containers.project import Project

BUILT_FROM = ("Dockerfile", ".dockerignore", "docker-compose.yml", "pyproject.toml", "README.md", "CHANGELOG.md")
FOLDERS = ("goclaw", "deploy")


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """A daemon with the base images of our files; the test is skipped where this machine lacks something."""
    try:
        # Named, it keeps images and build steps from run to run, of each worker.
        kept = os.environ.get("CONTAINERS_DATA")
        with running_engine(Path(kept, os.environ.get("PYTEST_XDIST_WORKER", "")) if kept else None) as started:
            compose.add_compose(started)
            images.load(started, images.python(), images.postgres(), images.caddy())
            yield started
    except Missing as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that an image is built from, and the compose files, in a folder of their own."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in (*BUILT_FROM, "LICENSE", *(lock.name for lock in ROOT.glob("requirements*.lock"))):
        shutil.copy(ROOT / name, folder / name)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "secrets"))
    return folder


@pytest.fixture(scope="module")
def project(engine: Engine, checkout: Path) -> Iterator[Project]:
    """One gateway, as the first lines of docker-compose.yml start it."""
    with Project(engine, checkout).running() as started:
        yield started


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failure at once: the lane takes an hour."""
    if report.failed:
        sys.stdout.write(f"\n{report.nodeid}\n{report.longreprtext}\n")
