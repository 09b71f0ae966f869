"""scripts/pin-images before a registry on loopback."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scripts._pin_images import FILES, PinError, images, parsed, pinned
from tests import house
from tests.scripts.fake_registry import FakeRegistry, open_registry

DOCKERFILE = """\
# FROM nothing: a comment
FROM {host}/library/python:3.11.15-slim-bookworm AS build
RUN true
FROM --platform=linux/amd64 {host}/library/python:3.11.15-slim-bookworm
COPY --from=build /app /app
FROM build
"""
COMPOSE = """\
services:
  gateway:
    build: .
    image: goclaw:${{GOCLAW_TAG:-dev}}
  ollama:
    image: {host}/ollama/ollama:0.18.2@sha256:{old}  # kept: this comment
"""

REPLICAS = """\
services:
  db:
    image: {host}/library/postgres:18.1-bookworm
"""


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """A registry that has the image of the third file; tests add the others."""
    with open_registry() as made:
        made.add("library/postgres", "18.1-bookworm")
        yield made


@pytest.fixture
def checkout(tmp_path: Path, registry: FakeRegistry) -> Path:
    """A checkout whose images lie in the registry."""
    shutil.copytree(house.ROOT / "scripts", tmp_path / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in zip(FILES, (DOCKERFILE, COMPOSE, REPLICAS), strict=True):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.format(host=registry.address, old="0" * 64))
    (tmp_path / FILES[1]).chmod(0o640)
    return tmp_path


def pin(checkout: Path) -> subprocess.CompletedProcess[str]:
    """Run scripts/pin-images."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [checkout / "scripts" / "pin-images"],
        cwd="/",
        env={"PATH": path, "HOME": str(checkout)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def contents(checkout: Path) -> dict[Path, bytes]:
    """The files that may be changed, and what lies beside them."""
    folders = {(checkout / name).parent for name in FILES}
    return {path: path.read_bytes() for folder in folders for path in folder.iterdir() if path.is_file()}


def refused(checkout: Path) -> str:
    """Return why nothing was pinned; all files must be as they were, with nothing beside them."""
    before = contents(checkout)
    done = pin(checkout)
    assert done.returncode == 1 and done.stdout == "" and "Traceback" not in done.stderr, done.stdout + done.stderr
    assert done.stderr.endswith("; no file was changed\n")
    assert contents(checkout) == before
    return done.stderr


def test_every_image_of_others_gets_the_digest_of_its_tag(checkout: Path, registry: FakeRegistry) -> None:
    postgres = registry.add("library/postgres", "18.1-bookworm")
    python = registry.add("library/python", "3.11.15-slim-bookworm")
    ollama = registry.add("ollama/ollama", "0.18.2")
    before = [(checkout / name).read_text() for name in FILES]
    done = pin(checkout)
    assert done.returncode == 0, done.stderr
    dockerfile, compose, replicas = ((checkout / name).read_text() for name in FILES)
    assert dockerfile == before[0].replace("-slim-bookworm", f"-slim-bookworm@{python}")
    assert compose == before[1].replace(f"sha256:{'0' * 64}", ollama)
    assert replicas == before[2].replace("-bookworm", f"-bookworm@{postgres}")
    assert (checkout / FILES[1]).stat().st_mode & 0o777 == 0o640
    names = ("library/postgres", "library/python", "ollama/ollama")
    assert sorted(registry.scopes) == [f"repository:{name}:pull" for name in names]
    # Once more: the digests are those of the tags.
    assert pin(checkout).returncode == 0
    assert (checkout / FILES[0]).read_text() == dockerfile


def test_one_tag_that_is_missing_changes_no_file(checkout: Path, registry: FakeRegistry) -> None:
    registry.add("library/python", "3.11.15-slim-bookworm")
    assert "ollama/ollama:0.18.2: the registry has no such tag" in refused(checkout)


def test_a_registry_out_of_reach_changes_no_file(checkout: Path, registry: FakeRegistry) -> None:
    for name in FILES:
        text = (checkout / name).read_text()
        (checkout / name).write_text(text.replace(registry.address, "127.0.0.1:9"))
    assert "127.0.0.1:9 cannot be reached: [Errno 111] Connection refused" in refused(checkout)


def test_a_digest_that_is_not_that_of_the_manifest_is_refused(checkout: Path, registry: FakeRegistry) -> None:
    registry.add("library/python", "3.11.15-slim-bookworm")
    registry.add("ollama/ollama", "0.18.2")
    registry.said_digest = f"sha256:{'1' * 64}"
    assert f"calls its manifest sha256:{'1' * 64}, but it is sha256:" in refused(checkout)


def test_a_page_in_place_of_a_manifest_is_refused(checkout: Path, registry: FakeRegistry) -> None:
    """A captive portal, or a proxy's login."""
    registry.add("ollama/ollama", "0.18.2")
    registry.add("library/python", "3.11.15-slim-bookworm")
    registry.media_type = "text/html"
    assert "answered with no manifest, but text/html" in refused(checkout)


def test_a_token_is_fetched_over_https_only(checkout: Path, registry: FakeRegistry) -> None:
    registry.realm = "http://tokens.example.org/token"
    assert "wants a login, or offers no token over HTTPS" in refused(checkout)


def test_a_token_follows_no_redirect(checkout: Path, registry: FakeRegistry) -> None:
    with open_registry() as other:
        registry.status, registry.location = 307, f"http://{other.address}/v2/library/python/manifests/3.11.15"
        assert "HTTP 307" in refused(checkout)
        assert other.asked == []


def test_a_registry_without_tokens_is_refused(checkout: Path, registry: FakeRegistry) -> None:
    registry.has_tokens = False
    assert "127.0.0.1 gave no token" in refused(checkout)


def test_a_tag_that_is_no_whole_version_is_refused_with_its_line(checkout: Path) -> None:
    (checkout / "docker-compose.yml").write_text("services:\n  ollama:\n    image: ollama/ollama:latest\n")
    assert "docker-compose.yml:3: ollama/ollama:latest has no exact version as its tag" in refused(checkout)


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("python:3.11.15-slim", "https://registry-1.docker.io/v2/library/python/manifests/3.11.15-slim"),
        ("ollama/ollama:0.18.2", "https://registry-1.docker.io/v2/ollama/ollama/manifests/0.18.2"),
        ("docker.io/ollama/ollama:0.18.2", "https://registry-1.docker.io/v2/ollama/ollama/manifests/0.18.2"),
        ("ghcr.io/a/b/c:v1.2.3", "https://ghcr.io/v2/a/b/c/manifests/v1.2.3"),
        ("postgres:18.1-bookworm", "https://registry-1.docker.io/v2/library/postgres/manifests/18.1-bookworm"),
        ("localhost:5000/a:1.2.3", "http://localhost:5000/v2/a/manifests/1.2.3"),
    ],
)
def test_a_reference_is_read_as_docker_reads_it(written: str, address: str) -> None:
    assert parsed(written, "Dockerfile:1").address == address


@pytest.mark.parametrize(
    "written", ["python", "python:3.11", "postgres:18", "localhost:5000/python", "python:latest", ":1.2.3"]
)
def test_a_reference_without_a_whole_version_is_an_error(written: str) -> None:
    with pytest.raises(PinError, match="Dockerfile:7"):
        parsed(written, "Dockerfile:7")


def test_the_images_of_this_checkout_have_exact_versions_and_can_be_pinned() -> None:
    digest = f"sha256:{'a' * 64}"
    results = {}
    for name in FILES:
        text = (house.ROOT / name).read_text()
        found = {image.written: digest for image in images(text, name)}
        results[name] = pinned(text, found)
        assert found and results[name].count(digest) >= len(found)
    for name, service in ((FILES[1], "ollama"), (FILES[2], "db"), (FILES[2], "proxy")):
        assert yaml.safe_load(results[name])["services"][service]["image"].endswith(f"@{digest}")
