"""A name that nobody is known by is refused with its place and what helps, and never repeated."""

from pathlib import Path

import pytest

from goclaw.common.config.load import load_config
from goclaw.errors import ConfigError
from tests.plugin import install, packages

__all__ = ["packages"]


def problems(tmp_path: Path, text: str) -> tuple[str, ...]:
    path = tmp_path / "config.yaml"
    path.write_text(f"state_dir: {tmp_path / 'state'}\n{text}")
    path.chmod(0o600)
    try:
        load_config(path, environ={})
    except ConfigError as error:
        return error.problems
    return ()


@pytest.mark.parametrize(
    "embedder",
    [
        *(
            "auto",
            "none",
            "ollama",
            "ollama:bge-m3:567m",
            "sentence-transformers",
            "openai-chat:text-embedding-3-small",
        ),
        *("sentence-transformers:/opt/models/minilm", "lmstudio:nomic", "openai:text-embedding-3-large"),
    ],
)
def test_what_can_embed_is_taken(tmp_path: Path, embedder: str) -> None:
    assert problems(tmp_path, f"memory:\n  embedder: {embedder}\n") == ()


@pytest.mark.parametrize(
    ("embedder", "said"),
    [
        ("sentence_transformer:x", "did you mean sentence-transformers?"),
        ("Auto", "did you mean auto?"),
        ("acme:x", "needs `providers.<name>.base_url`"),
        ("openai-chat", "should name a model of that server, such as openai-chat:text-embedding-3-small"),
        ("'ollama:'", "should be `auto`, `none`, a kind or `kind:model`"),
        ("':x'", "should be `auto`, `none`, a kind or `kind:model`"),
        ("''", "should be `auto`, `none`, a kind or `kind:model`"),
    ],
)
def test_what_cannot_is_refused_where_it_stands(tmp_path: Path, embedder: str, said: str) -> None:
    (problem,) = problems(tmp_path, f"memory:\n  embedder: {embedder}\n")
    assert "config.yaml:3:3: memory.embedder: " in problem and said in problem
    assert "acme" not in problem


def test_a_server_of_ones_own_needs_its_address_only(tmp_path: Path) -> None:
    own = "providers:\n  acme:\n    base_url: http://127.0.0.1:9/v1\n"
    assert problems(tmp_path, f"memory:\n  embedder: acme:x\n{own}") == ()


def test_a_kind_of_an_installed_package_is_known(tmp_path: Path, packages: Path) -> None:
    install(packages, "word-vectors", {"word_vectors": ""}, {"embedders.words": "word_vectors:PART"})
    assert problems(tmp_path, "memory:\n  embedder: words\n") == ()


def test_a_python_that_the_agent_could_replace_is_refused(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, f"workspace: {tmp_path}/w\nmemory:\n  embedder_python: {tmp_path}/w/bin/python\n")
    assert "config.yaml:4:3: memory.embedder_python: should not be inside the workspace" in problem
