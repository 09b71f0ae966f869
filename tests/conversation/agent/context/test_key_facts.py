"""Names that only help word for word: which they are, that there is a bound, and that no text makes this slow."""

import pytest

from goclaw.common.core.redact import remember
from goclaw.conversation.agent.context.key_facts import (
    HEAD,
    MAX_NAMES,
    MAX_SHARE,
    facts_in,
    names,
    names_in,
    with_names,
)
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Then ask Anna Weber, or Jonas (in Kraków).", ["Anna", "Weber", "Jonas", "Kraków"]),
        ("We agreed to meet Greta. The rest is open.", ["We agreed to meet Greta.", "Greta"]),
        ("Look at The Sign, the sign of OK and I.", []),
        ("So we will take Postgres!\nNo more", ["So we will take Postgres!", "Postgres"]),
        ("Wir haben vereinbart, erst zu testen.", ["Wir haben vereinbart, erst zu testen."]),
        (f"They decided {'very ' * 30} late.", []),
        ("der Hund und die Katze mit dem Ball im Garten, das Haus, die Tür, der Weg, das Kind, der Baum", []),
    ],
)
def test_people_places_and_decisions_are_found(text: str, expected: list[str]) -> None:
    assert list(facts_in([text])) == expected


def test_a_decision_and_a_person_that_a_summary_lost_are_kept_from_summary_to_summary() -> None:
    said = ["We decided to rent the blue boat on Friday.", "I told Greta, and paid at /srv/pay.txt."]
    facts = [*names_in(said), *facts_in(said)]
    first = with_names("They talked of a trip.", "", facts, ROOM)
    kept = f"{HEAD} /srv/pay.txt, Friday, Greta\n- We decided to rent the blue boat on Friday."
    assert first == f"They talked of a trip.\n\n{kept}"
    second = with_names("More talk.", first, [], ROOM)
    assert {*second.partition(HEAD)[2].split()} == {*first.partition(HEAD)[2].split()}
    told = "Greta knows of the blue boat that they decided to rent on Friday; /srv/pay.txt has the bill."
    assert with_names(told, first, facts, ROOM) == told
    assert estimate_text(with_names("S.", "", facts_in([f"We agreed on {n}." for n in range(99)]), ROOM)) < ROOM / 10


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
    facts_in([text, text.replace(" ", "")])
