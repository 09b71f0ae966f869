"""Whether this is a container, and the words that follow from it."""

from pathlib import Path

import pytest

from goclaw.core import container


@pytest.mark.parametrize("mark", ["", *container.MARKS])
def test_a_container_is_known_by_the_engine_s_files(mark: str, tmp_path: Path) -> None:
    if mark:
        (tmp_path / mark).parent.mkdir(exist_ok=True)
        (tmp_path / mark).touch()
    assert container.is_container(tmp_path, {}) is bool(mark)


def test_a_container_is_known_by_the_image_s_variable(tmp_path: Path) -> None:
    assert container.is_container(tmp_path, {"container": "oci"})
    assert "container=oci" in (Path(__file__).parents[2] / "Dockerfile").read_text()


@pytest.mark.parametrize(
    ("inside", "first", "words"),
    [
        (True, "/sbin/docker-init\0--\0goclaw\0gateway\0", "docker compose restart"),
        (True, "sleep\0infinity\0", "goclaw restart"),
        (False, "/sbin/init\0", "goclaw restart"),
    ],
)
def test_a_restart_is_named_as_it_is_done_here(
    inside: bool, first: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cmdline").write_text(first)
    monkeypatch.setattr(container, "FIRST", tmp_path / "cmdline")
    monkeypatch.setattr(container, "is_container", lambda: inside)
    container.restart_command.cache_clear()
    assert words in container.restart_command()
    monkeypatch.undo()
    container.restart_command.cache_clear()
