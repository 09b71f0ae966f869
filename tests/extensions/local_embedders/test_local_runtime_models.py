"""Where a model is, under which version, and what is said when it is not there."""

from pathlib import Path

import pytest

from goclaw.errors import ConfigError
from goclaw.extensions.local_embedders.local_runtime import (
    PACKAGED_MODEL,
    USUAL_MODEL,
    locate_model,
    module_of,
    usual_model,
)


def lay_down(folder: Path, weights: str = "1") -> Path:
    folder.mkdir(parents=True)
    for name in ("config.json", "modules.json"):
        (folder / name).write_text("{}")
    (folder / "model.safetensors").write_text(weights)
    return folder


def cached(cache: Path, name: str, commit: str = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf") -> Path:
    """A model as the hub's library keeps it."""
    model = cache / f"models--{name.replace('/', '--')}"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text(commit)
    return lay_down(model / "snapshots" / commit)


def test_a_folder_is_the_same_version_until_a_file_that_matters_changes(tmp_path: Path) -> None:
    folder = lay_down(tmp_path / "minilm")
    found = locate_model(str(folder), {}, {})
    assert (found.title, found.source, found.is_here) == ("minilm", str(folder), True)
    (folder / "README.md").write_text("read me")
    assert locate_model(str(folder), {}, {}) == found
    (folder / "model.safetensors").write_text("2")
    assert locate_model(str(folder), {}, {}).version != found.version


def test_one_of_the_hub_is_found_where_its_library_keeps_it(tmp_path: Path) -> None:
    snapshot = cached(tmp_path / "hub", USUAL_MODEL)
    for env in ({"HF_HOME": str(tmp_path)}, {"HF_HUB_CACHE": str(tmp_path / "hub")}):
        found = locate_model("all-MiniLM-L6-v2", {}, env)
        assert (found.source, found.version) == (str(snapshot), "c9745ed1d9f2")


def test_one_that_is_not_here_is_fetched_later_unless_that_is_forbidden(tmp_path: Path) -> None:
    env = {"HF_HOME": str(tmp_path)}
    found = locate_model("acme/embed-large", {}, env)
    assert (found.source, found.is_here) == ("acme/embed-large", False)
    with pytest.raises(ConfigError, match="acme/embed-large is not on this machine, and HF_HUB_OFFLINE forbids"):
        locate_model("acme/embed-large", {}, {**env, "HF_HUB_OFFLINE": "1"})


def test_a_fetch_that_was_cut_off_counts_as_not_here(tmp_path: Path) -> None:
    (cached(tmp_path / "hub", USUAL_MODEL) / "model.safetensors").unlink()
    assert not locate_model(USUAL_MODEL, {}, {"HF_HOME": str(tmp_path)}).is_here


def test_the_usual_model_is_a_package_else_one_that_was_fetched_before(tmp_path: Path) -> None:
    env = {"HF_HOME": str(tmp_path)}
    assert usual_model({}, env) == ""
    cached(tmp_path / "hub", USUAL_MODEL)
    assert usual_model({}, env) == USUAL_MODEL == locate_model("", {}, env).title
    folder = lay_down(tmp_path / "package" / "model")
    packages = {module_of(""): str(tmp_path / "package")}
    assert usual_model(packages, env) == PACKAGED_MODEL and locate_model(PACKAGED_MODEL, packages, env).source == str(
        folder
    )
    assert locate_model("", packages, env).title == PACKAGED_MODEL


@pytest.mark.parametrize("name", ["/nowhere/model", "~/nowhere", "../../etc", "a/b/c", "https://example.org/model"])
def test_what_is_no_model_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"memory\.embedder"):
        locate_model(name, {}, {"HF_HOME": "/nowhere"})
