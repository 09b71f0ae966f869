"""Links of the model's own making, as people see them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from goclaw.conversation.turns.shown_links import ShownLinks
from tests.tables import table

EVIL = "https://evil.test/?d=secret"


def links() -> ShownLinks:
    return ShownLinks(lambda address: "evil" in address)


@pytest.mark.promise("P-guard")
@table(
    "text, shown",
    [
        (f"See [here]({EVIL}).", f"See here ({EVIL})."),
        (f"![a plot]({EVIL})", f"a plot ({EVIL})"),
        (f"[{EVIL}]({EVIL})", EVIL),
        (f'[here](<{EVIL}> "a title")', f"here ({EVIL})"),
        (f"[two\nlines]({EVIL})", f"two\nlines ({EVIL})"),
        (f"[![a](https://evil.test/p.png)]({EVIL})", f"a (https://evil.test/p.png) ({EVIL})"),
        (f"[here][1]\n\n[1]: {EVIL}", f"[here][1]\n\n[1\\]: {EVIL}"),
        (f"[ [a] ]({EVIL})", f"\\[ \\[a] ]({EVIL})"),
        ("[here](//evil.test/x)", "here (//evil.test/x)"),
        (
            "[here](https://known.test/x) ![x](y.png) [evil](notes.md)",
            "[here](https://known.test/x) ![x](y.png) [evil](notes.md)",
        ),
        ("a[1] = b[2]! [ok] (x)", "a[1] = b[2]! [ok] (x)"),
    ],
)
def test_an_address_that_nobody_wrote_is_visible(text: str, shown: str) -> None:
    assert links().whole(text) == shown


PIECES = st.sampled_from(
    [
        "[",
        "]",
        "(",
        ")",
        "!",
        ":",
        "\n",
        " ",
        "a",
        "[b]",
        "](",
        f"[x]({EVIL})",
        "https://evil.test/",
        "[1]: ",
        "\\\\",
        "<",
        ">",
        "`",
    ]
)


@pytest.mark.promise("P-guard")
@given(st.lists(PIECES, max_size=12).map("".join), st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_no_link_of_a_stream_hides_its_address_from_people(text: str, sizes: list[int]) -> None:
    stage, out, at = links(), "", 0
    while at < len(text):
        size = sizes[at % len(sizes)]
        out += stage.next(text[at : at + size])
        at += size
    out += stage.rest()
    assert hidden(links().whole(out)) == []
    assert hidden(links().whole(text)) == []


def hidden(markdown: str) -> list[str]:
    """Return the addresses that CommonMark makes of a text, and that nobody reads in it."""
    found, parser = list[str](), MarkdownIt("commonmark")
    for block in parser.parse(markdown):
        children = block.children or []
        for index, token in enumerate(children):
            address = str(token.attrs.get("href", "") or token.attrs.get("src", ""))
            after = "".join(each.content for each in children[index : index + 2])
            if "evil" in address and token.markup != "autolink" and address not in after:
                found.append(address)
    return found


def test_a_text_without_brackets_is_not_held_back() -> None:
    stage = links()
    assert [stage.next(piece) for piece in ("Hello", "!", " How are", " you?")] == ["Hello", "!", " How are", " you?"]
