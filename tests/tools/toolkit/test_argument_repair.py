"""Arguments and names of wrong form: what is put right, and what stays because two readings fit."""

from typing import Any, Literal

import pytest
from pydantic import BaseModel

from goclaw.llm.base import INVALID_JSON
from goclaw.tools.toolkit.argument_repair import fits, near_names, repair


class Line(BaseModel):
    number: int
    text: str = ""


class Arguments(BaseModel):
    path: str = ""
    count: int = 0
    share: float = 0.0
    every: bool = False
    names: list[str] = []
    line: Line | None = None
    lines: list[Line] = []
    extra: dict[str, Any] = {}
    mode: Literal["a", "b"] = "a"
    either: int | list[int] = 0
    limit: int | str = 0
    flag: bool | int = 0


RIGHT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a whole number": ({"count": "20"}, {"count": 20}),
    "a negative number with spaces": ({"count": " -3 "}, {"count": -3}),
    "a fraction": ({"share": "0.5"}, {"share": 0.5}),
    "a truth value": ({"every": "true"}, {"every": True}),
    "a truth value of Python": ({"every": "False"}, {"every": False}),
    "a list as a JSON text": ({"names": '["a", "b"]'}, {"names": ["a", "b"]}),
    "a list with a comma too many": ({"names": '["a", "b",]'}, {"names": ["a", "b"]}),
    "an object as a JSON text": ({"extra": '{"a": 1}'}, {"extra": {"a": 1}}),
    "a number inside an object": ({"line": {"number": "7"}}, {"line": {"number": 7}}),
    "objects as texts in a list": ({"lines": ['{"number": "7"}']}, {"lines": [{"number": 7}]}),
    "a list as a text that holds texts": ({"lines": '[{"number": "7"}]'}, {"lines": [{"number": 7}]}),
    "a union, of which one part can be meant": ({"either": "[1, 2]"}, {"either": [1, 2]}),
    "two at once": ({"count": "1", "every": "true"}, {"count": 1, "every": True}),
}
WRONG: dict[str, dict[str, Any]] = {
    "words for a number": {"count": "twenty"},
    "a number with a unit": {"count": "20 lines"},
    "a zero in front: a name or a number": {"count": "007"},
    "a fraction for a whole number": {"count": "1.5"},
    "a list of words with commas": {"names": "a, b"},
    "one item for a list": {"names": "a"},
    "an object for a list": {"names": '{"a": 1}'},
    "a list whose object has a name twice": {"lines": '[{"number": 1, "number": 2}]'},
    "yes for true": {"every": "yes"},
    "one for true": {"every": "1"},
    "an unknown choice": {"mode": "c"},
    "an unknown name": {"cuont": 1},
    "one of two beyond repair": {"count": "20", "every": "yes"},
}


@pytest.mark.parametrize("kind", RIGHT)
def test_what_is_wrong_in_form_only_is_put_right(kind: str) -> None:
    given, meant = RIGHT[kind]
    assert repair(Arguments, given) == meant
    assert fits(Arguments, given)


@pytest.mark.parametrize("kind", WRONG)
def test_what_has_no_reading_or_several_stays_and_is_refused(kind: str) -> None:
    given = WRONG[kind]
    assert repair(Arguments, given) is given
    assert not fits(Arguments, given)


@pytest.mark.parametrize("given", [{"path": "20"}, {"path": "[1]"}, {"limit": "20"}, {"extra": {"count": "20"}}])
def test_a_text_where_a_text_may_be_stays_one(given: dict[str, Any]) -> None:
    assert repair(Arguments, given) == given
    assert fits(Arguments, given)


def test_unreadable_and_injected_arguments_do_not_fit() -> None:
    assert not fits(Arguments, {INVALID_JSON: "{"})
    assert not fits(Arguments, {"path": "a"}, injected=("path",))
    assert not fits(Arguments, ["path"])


TOOLS = ("exec", "read", "write", "edit", "web_fetch", "web_search", "task_list", "task_lists")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Exec", ["exec"]),
        ("functions.exec", ["exec"]),
        ("default_api:tools/exec", ["exec"]),
        ("exec<|channel|>commentary", ["exec"]),
        ("functions.exec:0", ["exec"]),
        ("webFetch", ["web_fetch"]),
        ("web-fetch", ["web_fetch"]),
        ("write_file", ["write"]),
        ("run_exec_command", ["exec"]),
        ("wirte", []),
        ("web_fetc", ["web_fetch"]),
        ("delete", []),
        ("functions.", []),
        ("", []),
    ],
)
def test_a_name_means_the_tools_that_are_near(name: str, meant: list[str]) -> None:
    assert near_names(name, TOOLS) == meant


def test_a_name_that_is_near_to_two_tools_means_both() -> None:
    assert sorted(near_names("task_listt", TOOLS)) == ["task_list", "task_lists"]
