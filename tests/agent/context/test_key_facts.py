"""Names that only help word for word: which they are, that there is a bound, and that no text makes this slow."""

import pytest

from goclaw.agent.context.key_facts import HEAD, MAX_NAMES, MAX_SHARE, names, names_in, with_names
from goclaw.core.redact import remember
from goclaw.llm.token_counts import estimate_text
from tests.tables import table

ROOM = 2_048
"""Tokens of a usual summary."""
SECRET = "swordfish-of-the-daemon"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("it is in /etc/hosts, I think", ["/etc/hosts"]),
        ("see (../notes/2026.txt).", ["../notes/2026.txt"]),
        ("edit ~/x.py and src/app/main.ts", ["~/x.py", "src/app/main.ts"]),
        ("report.md, config.v2.yaml!", ["report.md", "config.v2.yaml"]),
        ("look at https://example.org/a?b=c#d.", ["https://example.org/a?b=c#d"]),
        ("write to anna.lee+work@mail.example.org;", ["anna.lee+work@mail.example.org"]),
        ("call +49 (170) 123-4567 today", ["+49 (170) 123-4567"]),
        ("order 1a2b3c4d-1234-1234-1234-123456789abc", ["1a2b3c4d-1234-1234-1234-123456789abc"]),
        ("commit 3f9c2ab and deadbeef", ["3f9c2ab"]),
        ("GOCLAW-123 blocks #44", ["GOCLAW-123", "#44"]),
        ("from v1.2.3 to 2.0.0-rc1", ["v1.2.3", "2.0.0-rc1"]),
        ("set MAX_RETRIES=3", ["MAX_RETRIES"]),
        ("on 2026-11-21 he paid 1234567", ["2026-11-21", "1234567"]),
        ("run `git rebase --onto main`", ["git rebase --onto main"]),
        ("just words, and a few more: nothing of it.", []),
        ("a file called x.md", ["x.md"]),
        ("at 14:30 in room B12, flight LH441", ["14:30", "B12", "LH441"]),
        ("it costs 1,250.50€, or $40, less 15%", ["1,250.50€", "$40", "15%"]),
    ],
)
def test_a_name_is_found_whole(text: str, expected: list[str]) -> None:
    assert list(names(text)) == expected


def test_a_secret_is_no_name() -> None:
    remember(SECRET)
    said = f"the key is `sk-ant-0123456789abcdef`, `{SECRET}` and https://anna:hunter22@example.org/x"
    assert list(names(said)) == []
    assert with_names("A summary.", said, names_in([said]), ROOM) == "A summary."


def test_only_what_is_missing_is_added_once_and_the_latest_first() -> None:
    text = with_names(
        "Anna edits /srv/a.py.", "", names_in(["then /srv/b.py", "first /srv/a.py, /srv/b.py, /srv/c.py"]), ROOM
    )
    assert text == f"Anna edits /srv/a.py.\n\n{HEAD} /srv/b.py, /srv/c.py"
    assert with_names("Nothing.", "", names_in(["no names here"]), ROOM) == "Nothing."


def test_there_is_a_bound_in_number_and_in_length() -> None:
    many = with_names("S.", "", names_in([" ".join(f"/n/{number}" for number in range(500))]), 20 * ROOM)
    assert many.count(", ") + 1 == MAX_NAMES
    long = with_names("S.", "", names_in([" ".join(f"/n/{number}{'x' * 100}" for number in range(500))]), ROOM)
    assert ROOM / MAX_SHARE * 0.8 < estimate_text(long.removeprefix("S.")) <= ROOM / MAX_SHARE
    assert with_names("S.", "", names_in(["/n/1"]), 20) == "S.", "a summary without room has no list"


def test_old_names_are_kept_and_leave_room_for_new_ones() -> None:
    old = " ".join(f"/old/{number}" for number in range(500))
    new = " ".join(f"/new/{number}" for number in range(500))
    both = with_names("S.", old, names_in([new]), 20 * ROOM)
    assert both.count("/old/") == both.count("/new/") == MAX_NAMES // 2
    assert "/old/0," in both and "/new/0," in both
    assert with_names("S.", old, names_in(["/new/1"]), 20 * ROOM).count("/old/") == MAX_NAMES - 1, (
        "what is left over is theirs"
    )


"""Seconds: far more than any text takes, far less than one in the square of its length."""
PIECES = {
    "letters": "a" * 119,
    "folders": "a/" * 60,
    "dots": "a." * 60,
    "hex": "abcdef0" * 17,
    "hex, almost": "a" * 118 + "g",
    "digits": "1" * 119,
    "numbers": "1." * 60,
    "dashes": "1-" * 60,
    "constants": "A_" * 60,
    "tickets": "A-" * 60,
    "open code": "`" + "a" * 78,
    "backticks": "`",
    "telephone": "+1 " * 40,
    "telephone without a number": "+1" + "()" * 50,
    "addresses": "https://" * 15,
    "mail": "a@" * 60,
    "mail without a host": "a.b+c@" * 20,
    "home": "~/" * 60,
    "above": "../" * 40,
    "not Latin": "é漢" * 60,
    "hashes": "#1" * 60,
    "identifiers": "01234567-" * 13,
    "nothing": " " * 120,
}


@pytest.mark.timeout(120)  # with the square of the length each text takes minutes
@table("piece", PIECES.values(), ids=PIECES)
def test_no_text_takes_more_than_time_in_its_length(piece: str) -> None:
    text = f"{piece} " * (1_000_000 // (len(piece) + 1))
    with_names("A summary.", "", names_in([text[:300_000], text[300_000:], text]), ROOM)
    with_names("A summary.", "", names_in([text.replace(" ", "")]), ROOM)
