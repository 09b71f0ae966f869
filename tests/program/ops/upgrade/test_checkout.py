"""A version out of git, on the Pythons that GoClaw promises to run on."""

import tarfile
from pathlib import Path

import pytest

from goclaw.program.ops.upgrade.checkout import unpack


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """A tar file with one file in a folder."""
    (tmp_path / "from" / "goclaw").mkdir(parents=True)
    (tmp_path / "from" / "goclaw" / "__init__.py").write_text("new\n")
    path = tmp_path / "tree.tar"
    with tarfile.open(path, "w") as archive:
        archive.add(tmp_path / "from", ".")
    return path


def test_a_version_is_unpacked_by_a_python_whose_tarfile_has_no_filters(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian 12 has 3.11.2; filters came with 3.11.4."""
    whole = tarfile.TarFile.extractall
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    monkeypatch.setattr(
        tarfile.TarFile,
        "extractall",
        lambda self, path=".", members=None, *, numeric_owner=False: whole(
            self, path, members, numeric_owner=numeric_owner
        ),
    )
    unpack(packed, tmp_path / "to")
    assert (tmp_path / "to" / "goclaw" / "__init__.py").read_text() == "new\n"


@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="this Python's tarfile has no filters")
def test_a_link_that_leads_out_of_the_folder_is_refused(packed: Path, tmp_path: Path) -> None:
    with tarfile.open(packed, "a") as archive:
        link = tarfile.TarInfo("way-out")
        link.type, link.linkname = tarfile.SYMTYPE, "../../outside"
        archive.addfile(link)
    with pytest.raises(tarfile.FilterError):
        unpack(packed, tmp_path / "to")
