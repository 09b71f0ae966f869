"""Of what commands may see, the hidden folders are left out, whatever name leads to them."""

from pathlib import Path

import pytest

from goclaw.execution.sandbox.layout import visible


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A folder of programs with a state folder far inside, and other names of it."""
    (tmp_path / "usr/lib/goclaw/state").mkdir(parents=True)
    (tmp_path / "usr/lib/libc.so").write_text("")
    (tmp_path / "usr/bin").mkdir()
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "lib").symlink_to("usr/lib")
    (tmp_path / "etc").mkdir()
    return tmp_path


def shown(system: Path, *names: str, hidden: str) -> set[str]:
    found = visible([str(system / name) for name in names], [system / hidden])
    return {str(Path(path).relative_to(system)) for path in found}


@pytest.mark.promise("P-exec-contained")
def test_a_folder_with_something_hidden_is_shown_but_for_that(system: Path) -> None:
    found = shown(system, "usr", "bin", "lib", "etc", hidden="usr/lib/goclaw/state")
    assert found == {"usr/bin", "usr/lib/libc.so", "bin", "etc"}
    assert shown(system, "usr/lib/goclaw/state", "lib/goclaw/state", hidden="usr/lib/goclaw/state") == set()


def test_what_is_not_there_is_left_out_and_the_rest_keeps_its_name(system: Path) -> None:
    assert shown(system, "bin", "lib64", "etc", hidden="usr/lib/goclaw/none") == {"bin", "etc"}
