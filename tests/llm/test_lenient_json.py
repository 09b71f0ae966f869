"""Almost JSON: what is read, and what stays unread because it has no meaning or two."""

from typing import Any

import pytest

from goclaw.llm.lenient_json import Unreadable, end_of, parse

GIVEN = {"path": "a", "lines": [1, 2]}
READ: dict[str, tuple[str, Any]] = {
    "plain": ('{"path": "a", "lines": [1, 2]}', GIVEN),
    "commas before brackets": ('{"path": "a", "lines": [1, 2,],}', GIVEN),
    "a raw line break in a string": ('{"text": "one\ntwo"}', {"text": "one\ntwo"}),
    "encoded twice": (r'"{\"path\": \"a\", \"lines\": [1, 2]}"', GIVEN),
    "doubled braces": ('{{"path": "a", "lines": [1, 2]}}', GIVEN),
    "doubled braces inside, too": ('{{"a": {{"b": 1}}}}', {"a": {"b": 1}}),
    "Python's spelling": (
        "{'path': 'a', 'lines': [1, 2], 'all': True, 'not': None}",
        {**GIVEN, "all": True, "not": None},
    ),
    "a comma that stands in a string": ('{"text": "[1,]",}', {"text": "[1,]"}),
    "a string that only looks like an object": (r'"{not one"', "{not one"),
}
UNREAD = {
    "a name twice": '{"path": "a", "path": "b"}',
    "a name twice behind a comma too many": '{"path": "a", "path": "b",}',
    "a name twice in Python's spelling": "{'path': 'a', 'path': 'b'}",
    "cut": '{"path": "a"',
    "two objects": '{"a": 1} {"b": 2}',
    "not a number": '{"a": NaN}',
    "code": "{'a': open('b')}",
    "words": "read the file a",
    "nothing": "",
}


@pytest.mark.parametrize("kind", READ)
def test_almost_json_is_read(kind: str) -> None:
    text, value = READ[kind]
    assert parse(text) == value


@pytest.mark.parametrize("kind", UNREAD)
def test_what_has_no_meaning_or_two_is_not_read(kind: str) -> None:
    with pytest.raises(Unreadable):
        parse(UNREAD[kind])


@pytest.mark.parametrize(
    ("text", "rest"),
    [('{"a": "}"} b', " b"), ("[[1], [2]]", ""), ('{"a": [1}', None), ('{"a": 1', None)],
)
def test_the_end_of_an_object_is_found(text: str, rest: str | None) -> None:
    end = end_of(text, 0)
    assert end == -1 if rest is None else text[end:] == rest
