"""The commands of docs/postgres.md, as far as they can be tried without a Postgres.

`tests/acceptance/test_postgres.py` carries them out on one, `tests/acceptance/test_install.py` installs the extra.
"""

import re
import shlex

import pytest

from goclaw.program.cli.program import run
from tests import house
from tests.docs.pages import pages
from tests.test_scripts import load, pins

(PAGE,) = (page for page in pages() if page.name == "docs/postgres.md")
COMMANDS = [
    line
    for block in PAGE.blocks()
    if block.language == "sh"
    for line in block.text.splitlines()
    if line.startswith("goclaw ")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_program_knows_every_option_where_the_page_has_it(command: str) -> None:
    assert run([*shlex.split(command, comments=True)[1:], "--help"]) == 0


def test_an_option_in_the_wrong_place_is_found() -> None:
    """The check above would notice: the page as it was once."""
    assert run(["start", "--set", "store=postgresql://goclaw@db.example.org/mydatabase", "--help"]) == 2


def test_the_page_installs_the_extra_and_so_does_a_checkout() -> None:
    assert "pip install 'goclaw[postgres]'" in PAGE.text
    (variable,) = set(re.findall(r"(WITH_\w+)=1 scripts/run", PAGE.text))
    assert variable in (house.ROOT / "scripts" / "run").read_text()
    assert {"psycopg", "procrastinate"} <= set(pins(load("_bootstrap").EXTRAS[variable]))
