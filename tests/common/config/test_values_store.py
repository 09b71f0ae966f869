"""Addresses of Postgres in `store`."""

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from goclaw.common.config.schema import Config
from goclaw.common.config.values import PostgresPlace
from tests.tables import table


@table(
    "address, url, schema",
    [
        ("postgresql://a@h/d", "postgresql://a@h/d", "goclaw"),
        ("postgres://a@h:5433/d", "postgres://a@h:5433/d", "goclaw"),
        ("postgresql://a@h/d?schema=team_2", "postgresql://a@h/d", "team_2"),
        ("postgresql://a@h/d?sslmode=require&schema=x", "postgresql://a@h/d?sslmode=require", "x"),
        ("postgresql:///d?host=/run/postgresql", "postgresql:///d?host=%2Frun%2Fpostgresql", "goclaw"),
        ("postgresql://a@h1,h2/d?schema=s", "postgresql://a@h1,h2/d", "s"),
    ],
)
def test_an_address_names_a_schema_of_a_database(address: str, url: str, schema: str) -> None:
    place = Config(store=address).store_place
    assert isinstance(place, PostgresPlace)
    assert (place.url, place.schema) == (url, schema)


@table(
    "address, words",
    [
        ("mysql://a@h/d", "should be `postgresql://USER@HOST/DATABASE`"),
        ("goclaw.db", "leave it out for SQLite"),
        ("postgresql://a:hunter2@h/d", "should contain no password"),
        ("postgresql://a@h/d?password=hunter2", "secrets/store_password"),
        ("postgresql://a@h/d?schema=Team", "an invalid `schema`"),
        ("postgresql://a@h/d?schema=x%22;drop", "an invalid `schema`"),
        ("postgresql://a@h/d?schema", "should be an address"),
    ],
)
def test_any_other_address_is_refused_in_words_that_repeat_nothing(address: str, words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Config(store=address)
    [problem] = refused.value.errors(include_input=False)
    assert words in problem["msg"]
    assert "hunter2" not in problem["msg"]


def test_without_an_address_the_database_is_a_file() -> None:
    assert Config(state_dir=Path("/x")).store_place == Path("/x/goclaw.db")


def test_the_password_is_shown_nowhere() -> None:
    place = Config(store="postgresql://a@h/d", store_password=SecretStr("hunter2")).store_place
    assert isinstance(place, PostgresPlace)
    assert "hunter2" not in repr(place) + place.shown
    assert place.password is not None and place.password.get_secret_value() == "hunter2"
