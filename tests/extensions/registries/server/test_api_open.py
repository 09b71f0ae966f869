"""How the registry is opened: what whoever serves it is told first."""

import pytest

from goclaw.common.config.schema import Config
from goclaw.extensions.registries.server.api import warnings_of


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, []),
        ({"open": True}, []),
        ({"host": "::"}, ["without encryption"]),
        ({"host": "192.0.2.7", "open": True}, ["without encryption", "may read all of it"]),
    ],
)
def test_what_strangers_could_do_is_said(settings: dict[str, object], words: list[str]) -> None:
    said = warnings_of(Config.model_validate({"registry_server": settings}))
    assert len(said) == len(words) and all(word in line for word, line in zip(words, said, strict=True))
