"""Edits that want to hit another place than the one that is meant, or to keep the daemon busy for hours."""

import asyncio
from pathlib import Path

import pytest

from goclaw.testing import open_bench
from goclaw.tools.builtin.matching import MatchTier, find
from tests.tools.builtin.test_builtin_files import TOOLS

HEAVY = [
    ("a \n" * 300_000, "a\n" * 2_000 + "b\n"),
    ("a \n" * 300_000, "a\n" * 2_000 + "b \n"),
    ("ab \n" * 200_000, "ab\n" * 500 + "ac\n"),
    (("begin\n" + "a" * 1_900 + "\nend\n") * 1_500, "begin\n" + "a" * 1_890 + "b" * 10 + "\nend\n"),
    (("begin\n" + "x y\n" * 900 + "end\n") * 100, "begin\n" + "x y\n" * 899 + "x z\nend\n"),
    (" \n" * 2_000_000, "y\nx"),
]
"""Texts in which almost every place almost fits."""


@pytest.mark.parametrize(("body", "old"), HEAVY, ids=range(len(HEAVY)))
async def test_what_almost_fits_everywhere_is_given_up_in_time(body: str, old: str) -> None:
    """Nobody can stop a thread: what it does has to end by itself."""
    async with asyncio.timeout(15):
        assert await asyncio.to_thread(find, body, old, fuzzy=True) is None


def test_a_place_of_which_not_all_others_were_looked_at_is_no_certain_place() -> None:
    """The one that fits comes first; two thousand that begin and end alike come behind it."""
    other = "def begin():\n    something_else_{n}()\n    end()\n"
    body = "def begin():\n    call_the_thing()\n    end()\n" + "".join(other.format(n=n) for n in range(2_500))
    old = "def begin():\n    call_the_thimg()\n    end()\n"
    assert find(body, old, fuzzy=True) is None
    few = find(body[:5_000], old, fuzzy=True)
    assert few and few.tier is MatchTier.FUZZY and len(few.spans) == 1


@pytest.mark.parametrize(
    ("body", "old"),
    [
        ("limit = 100\n# the most that is paid out\n", "limit = 1000\n# the most that is paid out\n"),
        ("if a:\n    pay(10)\n    done()\n", "if a:\n    pay(11)\n    done()\n"),
        ("one_name()\ntwo()\n", "one_nane()\ntwo()\n"),
        ("x = 1\n", "x = 2\n"),
    ],
)
def test_a_number_or_an_edge_that_differs_is_no_match(body: str, old: str) -> None:
    assert find(body, old, fuzzy=True) is None


@pytest.mark.parametrize("path", ["a/../b.txt", "./b.txt", "folder/link", "b.txt/."])
async def test_edits_of_one_file_by_several_names_see_each_other(path: str, tmp_path: Path) -> None:
    """A call that names the same file twice writes neither over the other."""
    async with open_bench(tmp_path, *TOOLS) as made:
        (made.folder / "b.txt").write_text("one two\n")
        (made.folder / "a").mkdir()
        (made.folder / "folder").mkdir()
        (made.folder / "folder" / "link").symlink_to("../b.txt")
        edits = [
            {"path": "b.txt", "old_string": "one", "new_string": "1"},
            {"path": path, "old_string": "two", "new_string": "2"},
        ]
        result = await made.call("multi_edit", {"edits": edits})
        left = (made.folder / "b.txt").read_text()
    assert left == ("one two\n" if result.is_error else "1 2\n"), result.content
