"""They agree with Python's own module, which is not imported for texts without references."""

import html
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from goclaw.core.html_references import ESCAPES, unescape

PIECES = st.sampled_from(["&amp;", "&eacute", "&#x27;", "&#0;", "&notin;", "&", "<b>", '"', "'", "é"]) | st.text(
    max_size=5
)


@given(st.lists(PIECES).map("".join))
def test_escaping_and_its_reversal_are_those_of_pythons_module(text: str) -> None:
    assert text.translate(ESCAPES) == html.escape(text)
    assert unescape(text) == html.unescape(text)


def test_the_table_of_names_is_loaded_by_the_first_text_with_a_reference() -> None:
    code = (
        "import sys, goclaw.core.html_references as r\n"
        "assert r.unescape('plain') == 'plain' and 'html.entities' not in sys.modules\n"
        "assert r.unescape('&eacute;') == 'é' and 'html.entities' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
