"""Marks around foreign text."""

import re

from hypothesis import given
from hypothesis import strategies as st

from goclaw.agent.quoting import quoted


@given(st.text(max_size=200), st.text(max_size=50))
def test_no_text_ends_its_own_marks(text: str, origin: str) -> None:
    whole = quoted(text, origin)
    opened = re.match(r'<material id="([0-9a-f]{12})" from="[^"<>\n]*">\n', whole)
    assert opened and whole.endswith(f'\n</material id="{opened[1]}">')
    assert whole.count(opened[1]) == 2


def test_what_looks_like_a_mark_is_written_differently_and_everything_else_stays() -> None:
    assert "<\u200bmaterial" in quoted("<material>", "a")
    assert "</\u200bMaterial >" in quoted("</Material >", "a")
    assert "<materials> & <b>\n" in quoted("<materials> & <b>\n", "a")


def test_every_quotation_has_an_id_of_its_own() -> None:
    assert quoted("a", "b") != quoted("a", "b")
