"""Queries become match expressions; passages get the terms that FTS5 would not find."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goclaw.memory.query_terms import (
    PARTS_CHARACTERS,
    QUERY_TERMS,
    extra_terms,
    match_expressions,
    part_expressions,
    parts_terms,
    term_expressions,
    word_count,
)
from tests.lanes import repeats

LONG = 200_000


def best(query: str) -> str:
    return next(match_expressions(query))


@pytest.fixture(scope="module")
def table() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'porter unicode61')")
        connection.execute("INSERT INTO words VALUES ('some text')")
        yield connection


def test_stop_words_are_dropped_and_the_rest_is_joined_with_or() -> None:
    assert best("What did we discuss about authentication?") == '"discuss" OR "authentication"'


def test_a_query_of_stop_words_only_keeps_them() -> None:
    assert best("who are you") == '"who" OR "are" OR "you"'


def test_a_contraction_leaves_no_letters_behind() -> None:
    assert best("What's Anna's plan, and doesn't it fit?") == '"Anna\'s" OR "Anna" OR "plan" OR "fit"'


def test_an_address_is_asked_for_as_a_phrase_and_by_its_words() -> None:
    assert best("anna@example.com") == '"anna@example.com" OR "anna" OR "example" OR "com"'


def test_an_identifier_is_asked_for_by_its_parts_as_well() -> None:
    assert best("getUserName") == '"getUserName" OR "get User Name"'


def test_a_chinese_question_is_asked_for_by_pairs_of_characters() -> None:
    assert best("讨论认证") == '"讨论" OR "论认" OR "认证"'


def test_an_emoji_is_asked_for_by_its_code_point() -> None:
    assert best("😀") == '"u1f600"'


def test_a_repeated_word_counts_once_and_a_long_query_is_bounded() -> None:
    assert best("plan plan plan") == '"plan"'
    assert best(" ".join(f"word{number}" for number in range(5_000))).count(" OR ") == QUERY_TERMS - 1


def test_the_second_try_asks_for_the_beginnings_of_words() -> None:
    assert list(match_expressions("auth of anna@example.com x"))[1] == '"auth" * OR "anna" * OR "example" * OR "com" *'


@pytest.mark.parametrize("query", ["", "  ", "?!", '"', "* - : ( )", "\x00", "\ud800"])
def test_a_query_without_a_word_has_no_expression(query: str) -> None:
    assert list(match_expressions(query)) == []


SYNTAX = ['"', "*", "-", ":", "^", "+", "(", ")", "{", "}", "NEAR", "NEAR(a b, 3)", "AND", "OR", "NOT", "text:", "'"]


@pytest.mark.deep
@given(st.lists(st.sampled_from(SYNTAX) | st.text(max_size=20), max_size=12).map(" ".join))
@settings(max_examples=repeats(100, 1000), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_query_is_a_syntax_error(table: sqlite3.Connection, query: str) -> None:
    for expression in match_expressions(query):
        table.execute("SELECT count(*) FROM words WHERE words MATCH ?", (expression,)).fetchone()


@pytest.mark.parametrize(
    "query", ["x" * 10_000, "😀" * 10_000, "认" * 10_000, "a-" * 5_000, '"' * 10_000, "ab " * 4_000]
)
def test_ten_thousand_characters_are_no_error_either(table: sqlite3.Connection, query: str) -> None:
    for expression in match_expressions(query):
        table.execute("SELECT count(*) FROM words WHERE words MATCH ?", (expression,)).fetchone()


def test_plain_english_needs_no_extra_terms() -> None:
    assert extra_terms("The fence is 2 m high; see HTTP, API and fence_2.") == []


def test_parts_of_identifiers_are_extra_terms() -> None:
    assert extra_terms("call HTTPServer.getUserName2()") == ["HTTP", "Server", "get", "User", "Name2"]


def test_accented_words_are_not_taken_apart() -> None:
    assert extra_terms("Mueller naïve Éa") == []


def test_german_is_also_there_as_it_is_written_without_its_own_keys() -> None:
    assert extra_terms("Müller, Straße") == ["Mueller", "Strasse"]


def test_unspaced_scripts_and_emoji_are_extra_terms() -> None:
    assert extra_terms("认证 ok 😀😀") == ["认", "证", "认证", "u1f600"]


def test_terms_come_one_by_one_for_a_search_that_weighs_them_itself() -> None:
    assert term_expressions('What about "deploys" by Anna?') == ['"deploys"', '"Anna"']
    assert " OR ".join(term_expressions("anna@example.com")) == best("anna@example.com")
    assert term_expressions(" \x00 ") == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("The fence is green, and Anna's cat sleeps. HTTP in 2023!", []),
        ("Write to anna.smith@example.com, please.", ["anna.smith@example.com"]),
        ("See https://example.com/wiki/page?id=7.", ["https://example.com/wiki/page?id=7"]),
        ("(v2.31.4-rc1) on 10.0.0.1:8080", ["v2.31.4-rc1", "10.0.0.1:8080"]),
        ("`HTTPServer.getUserName()` and __init__", ["HTTPServer.getUserName", "__init__"]),
        ("x86, ab1, a1 and src/main.py again: src/main.py", ["x86", "ab1", "src/main.py"]),
        ("我们讨论了认证和部署。很好", ["我们讨论了认证和部署"]),
        ("größe_max", ["größe_max"]),
    ],
)
def test_identifiers_addresses_and_unspaced_scripts_are_kept_apart(text: str, parts: list[str]) -> None:
    assert parts_terms(text) == parts


def test_parts_are_bounded() -> None:
    assert parts_terms("a_" * 5_000) == [("a_" * 100)]
    hashes = parts_terms(" ".join(f"hash{number}" for number in range(5_000)))
    assert len(" ".join(hashes)) <= PARTS_CHARACTERS
    assert len("".join(parts_terms("认" * 10_000))) <= PARTS_CHARACTERS


def test_only_what_looks_like_a_part_of_something_is_asked_for_among_the_parts() -> None:
    assert part_expressions("where does getUser (2.31) stand, and a1?") == ['"getUser"', '"2.31"']
    assert part_expressions("what did we discuss") == []
    assert part_expressions("讨论认证") == ['"讨论认"', '"论认证"']
    assert len(part_expressions(" ".join(f"id_{number}" for number in range(5_000)))) == QUERY_TERMS


@pytest.fixture(scope="module")
def parts() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE known USING fts5 (parts, tokenize = 'trigram')")
        for text in ("Write to anna.smith@example.com about HTTPServer.getUserName.", "我们讨论了认证和部署。"):
            connection.execute("INSERT INTO known VALUES (?)", (" ".join(parts_terms(text)),))
        yield connection


@pytest.mark.parametrize(
    ("query", "row"), [("smith@exam", 1), ("rver.getU", 1), ("USERNAME.get_it server.GETUSER", 1), ("了认证", 2)]
)
def test_any_three_characters_in_a_row_of_a_part_are_found(parts: sqlite3.Connection, query: str, row: int) -> None:
    found = [
        parts.execute("SELECT rowid FROM known WHERE known MATCH ?", (e,)).fetchall() for e in part_expressions(query)
    ]
    assert [(row,)] in found


@given(
    st.lists(st.sampled_from([*SYNTAX, "a_b", "a.", "x@y.z", "认证部署"]) | st.text(max_size=20), max_size=12).map(
        " ".join
    )
)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_query_is_a_syntax_error_among_the_parts(parts: sqlite3.Connection, query: str) -> None:
    for expression in part_expressions(query):
        parts.execute("SELECT count(*) FROM known WHERE known MATCH ?", (expression,)).fetchone()


@pytest.mark.parametrize("text", ["_" * LONG, "a." * LONG, "." * LONG, "a" + "." * LONG, "aB" * LONG])
def test_a_hostile_text_is_read_to_its_end(text: str) -> None:
    """With a regular expression that takes the square of its length, it would be read for hours."""
    parts_terms(text)
    part_expressions(text)


def test_a_passage_of_an_unspaced_script_is_as_long_as_it_reads() -> None:
    assert word_count("three words here") == 3
    assert word_count("认" * 100) == 51
    assert word_count("") == 0
