"""A restored database has nothing open, forgets no word of it, and knows what was taken in since."""

import pytest

from goclaw.common.auth.audit import FACT
from goclaw.durable.store.open import stored_fact
from goclaw.durable.store.settings import Settings
from goclaw.program.ops.backup.settle import Settled, end_open_work, remember_replaced
from tests.parts import sql
from tests.program.ops.backup.support import Home, promised, step, taken_in

NOTE = "[not taken up: restored from a backup of 2025-06-15 15:06 UTC]"
MADE = 1_750_000_000.0


def test_an_open_turn_is_closed_with_its_words_and_a_line_that_says_so(home: Home) -> None:
    home.write(taken_in(1, "are you there?", "new"), taken_in(2, "stop that", "stopping"), step("telegram:1", "intent"))
    assert end_open_work(home.database, MADE, MADE + 60) == Settled(2, 0)
    assert home.texts()[-4:] == ["are you there?", NOTE, "stop that", NOTE]
    assert home.rows("SELECT DISTINCT state FROM inbox") == [("done",)]
    assert home.rows("SELECT * FROM steps") == []


def test_a_message_that_was_heard_already_is_not_repeated(home: Home) -> None:
    home.write(taken_in(1, "hello", "new"), sql("UPDATE messages SET turn = 'telegram:1' WHERE text = 'hello'"))
    end_open_work(home.database, MADE, MADE + 60)
    assert home.texts().count("hello") == 1
    assert home.texts()[-1] == NOTE


@pytest.mark.parametrize(("state", "after"), [("pending", "failed"), ("sending", "failed"), ("sent", "sent")])
def test_no_delivery_is_under_way_any_more(home: Home, state: str, after: str) -> None:
    home.write(promised("a", state))
    assert end_open_work(home.database, MADE, MADE + 60).deliveries == (after == "failed")
    ((found, error),) = home.rows("SELECT state, error FROM deliveries")
    assert found == after
    assert (error is not None and "restored from a backup" in error) == (after == "failed")


def test_nothing_waits_for_the_end_of_quiet_hours_any_more(home: Home) -> None:
    held = (
        "INSERT INTO held_messages (id, session, person, chat, body, held_at, until) VALUES ('a', '', '', '', '', 1, 2)"
    )
    home.write(sql(held))
    assert end_open_work(home.database, MADE, MADE + 60).deliveries == 1
    assert home.rows("SELECT until FROM held_messages") == [(None,)]


def test_a_compaction_that_was_asked_for_leaves_no_words(home: Home) -> None:
    before = home.texts()
    home.write(taken_in(1, "", "new"), sql("UPDATE inbox SET kind = 'compact'"))
    assert end_open_work(home.database, MADE, MADE + 60) == Settled(1, 0)
    assert home.texts() == before
    assert home.rows("SELECT state FROM inbox") == [("done",)]


def test_a_database_with_nothing_open_stays_as_it_is(home: Home) -> None:
    home.write(taken_in(1, "hello", "done"), promised("a", "sent"))
    before = home.rows("SELECT * FROM messages"), home.rows("SELECT * FROM inbox")
    assert end_open_work(home.database, MADE, MADE + 60) == Settled(0, 0)
    assert (home.rows("SELECT * FROM messages"), home.rows("SELECT * FROM inbox")) == before


def test_it_knows_no_end_of_an_audit_log_that_another_machine_keeps(home: Home) -> None:
    home.write(Settings.learning(FACT, {"number": 5, "digest": "0" * 64}), Settings.learning("written", 1.0))
    end_open_work(home.database, MADE, MADE + 60)
    assert stored_fact(home.database, FACT) is None and stored_fact(home.database, "written") == 1.0


def test_what_the_replaced_database_took_in_is_known_and_done(home: Home) -> None:
    other = Home(home.folder / "other")
    other.say("hello")
    home.write(taken_in(1, "old", "done"), taken_in(2, "answered since", "done"), taken_in(3, "waiting", "new"))
    other.write(taken_in(1, "old", "done"))
    assert remember_replaced(other.database, home.database, MADE + 60) == 1
    assert other.rows("SELECT id, state FROM inbox ORDER BY id") == [
        ("telegram:1", "done"),
        ("telegram:2", "done"),
        ("telegram:3", "done"),
    ]
    assert other.rows("SELECT id FROM inbox WHERE ended_at IS NULL") == []
    assert other.texts() == ["hello", "Answer to hello"]
    assert other.rows("SELECT body FROM inbox WHERE id = 'telegram:2'") == [("",)]


def test_numbers_of_rows_that_were_used_are_not_used_again(home: Home) -> None:
    """A terminal that saw row 50 of the replaced state must not take a new row 50 for seen."""
    other = Home(home.folder / "other")
    other.say("hello")
    ((highest,),) = home.rows("SELECT max(id) FROM messages")
    assert remember_replaced(other.database, home.database, MADE) == 0
    other.say("next")
    assert other.rows("SELECT min(id) FROM messages WHERE turn = 'turn:next'") == [(highest + 1,)]
    assert other.texts() == ["hello", "Answer to hello", "next", "Answer to next"]


def test_a_replaced_database_that_is_missing_or_broken_is_no_hindrance(home: Home) -> None:
    assert remember_replaced(home.database, home.folder / "none.db", MADE) == 0
    (home.folder / "broken.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    assert remember_replaced(home.database, home.folder / "broken.db", MADE) is None
