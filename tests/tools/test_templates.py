"""Hints are short, safe and never in the way."""

import pytest

from goclaw.tools.templates import HINT_LENGTH, check, hint, rendered


@pytest.mark.parametrize(
    ("template", "made"),
    [
        ("{{ names | join(', ') }}", "a, b"),
        ("{{ names | count }} files", "2 files"),
        ("{{ text | truncate(8) }}", "Hello..."),
        ("{{ names | json }}", '["a", "b"]'),
        ("{{ text | quote }}", '"Hello \\"you\\" over there"'),
        ("Reading{% if note %} for {{ note }}{% endif %}", "Reading"),
        ("{{ text | upper }}\n  {{ names | first }}", 'HELLO "YOU" OVER THERE a'),
    ],
)
def test_filters_and_conditions(template: str, made: str) -> None:
    values = {"names": ["a", "b"], "text": 'Hello "you" over there', "note": None}
    assert hint(check(template, values, "here"), values) == made


def test_what_cannot_be_made_is_no_hint() -> None:
    assert hint("{{ missing }}", {}) == hint("{{ number / 0 }}", {"number": 1}) == hint("", {}) == ""
    assert hint("{{ '%d' % text }}", {"text": "a"}) == hint("{{ text.nothing.there }}", {"text": "a"}) == ""
    with pytest.raises(ValueError, match="missing"):
        rendered("{{ missing }}", {})


def test_a_hint_is_one_short_line() -> None:
    line = hint("{{ text }}", {"text": "one\ntwo " * 10_000})
    assert len(line) == HINT_LENGTH and line.endswith("…") and "\n" not in line


@pytest.mark.parametrize("template", ["{{ text.__class__.__mro__ }}", "{{ ().__class__.__base__.__subclasses__() }}"])
def test_a_template_reaches_nothing_of_the_program(template: str) -> None:
    assert hint(template, {"text": "a"}) == ""
