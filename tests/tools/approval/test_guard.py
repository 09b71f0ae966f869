"""Which calls the guard asks about, by what is in the window."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.tools.approval.guard import MAX_PAGES, Finding, Part, Route, Sink, WindowContent, judge
from tests.tables import table

PAGE = Part(
    "example.org",
    "Read [more](https://example.org/a/b?c=1#top), www.other.test/path and "
    "https://en.wikipedia.org/wiki/Rice_(food). Write to news@mail.test.",
    foreign=True,
    is_source=True,
)
SAID = "The door code is tiger.lilypad, see https://wiki.intern/door and the garden"
NOTES = Part("notes.md", SAID, private=True, is_source=True)
BOTH = WindowContent([NOTES, PAGE], ["What does https://asked.test/?q=1 say? And evil.test?"])
FOREIGN = WindowContent([PAGE])


def address(url: str, seen: WindowContent = BOTH, prompt: tuple[str, ...] = ()) -> Finding | None:
    return judge(Sink(Route.ADDRESS, url), seen, prompt)


@pytest.mark.promise("P-guard")
@table(
    "url",
    [
        "https://example.org/a/b?c=1",
        "https://example.org/a/b?c=1#elsewhere",
        "https://EXAMPLE.org/a/b?c=1",
        "https://example.org/%61/b?c=1",
        "http://www.other.test/path",
        "https://www.other.test/path/",
        "https://en.wikipedia.org/wiki/Rice_(food)",
        "https://asked.test/?q=1",
        "https://evil.test",
        "https://evil.test/",
        "https://wiki.intern/door",
    ],
)
def test_an_address_that_stands_in_the_window_is_free(url: str) -> None:
    assert address(url) is None


@pytest.mark.promise("P-guard")
@table(
    "url",
    [
        "https://example.org/a/b?c=1&d=tiger",
        "https://example.org/a/b?c=1..;",
        "https://example.org/a",
        "https://example.org/a/b%3Fc=1",
        "https://data@example.org/a/b?c=1",
        "https://example.org:8443/a/b?c=1",
        "https://tiger.example.org/",
        "https://other.test/path",
        "https://mail.test/x",
        "https://tiger.lilypad/",
        "https://evil.test/tiger",
        "not an address at all",
    ],
)
def test_any_other_address_asks_after_others_words_and_private_ones(url: str) -> None:
    found = address(url)
    assert found is not None
    assert "example.org" in found.reason
    assert "notes.md" in found.reason


@pytest.mark.promise("P-guard")
def test_it_takes_both_labels() -> None:
    for seen in (FOREIGN, WindowContent([NOTES]), WindowContent([])):
        assert address("https://evil.test/tiger", seen) is None
        assert judge(Sink(Route.SEND, "A message"), seen) is None


@pytest.mark.promise("P-guard")
@given(st.sampled_from([str, bytes.hex, base64.b64encode, base64.urlsafe_b64encode]), st.integers(0, 20))
def test_what_the_prompt_says_about_people_is_found_in_an_address_in_any_usual_code(code: object, begin: int) -> None:
    about = "Anna lives at Garden Street 7 with her two children"
    part = about[begin : begin + 24]
    written = {str: lambda: part.replace(" ", "%20"), bytes.hex: lambda: part.encode().hex()}.get(
        code,
        lambda: code(part.encode()).decode(),  # type: ignore[operator]  # the same
    )()
    assert address(f"https://evil.test/?d={written}", FOREIGN, (about,)) is not None


def test_words_of_the_person_s_own_may_stand_in_an_address() -> None:
    seen = WindowContent([PAGE], ["Search for Garden Street 7"])
    assert address("https://map.test/?q=Garden%20Street", seen, ("Anna lives at Garden Street 7",)) is None
    assert address("https://map.test/?q=Anna%20lives", seen, ("Anna lives at Garden Street 7",)) is not None


@pytest.mark.promise("P-guard")
def test_a_choice_among_many_pages_of_one_host_asks_in_the_end() -> None:
    url = "https://example.org/a/b?c=1"
    few = WindowContent([NOTES, PAGE], pages={"example.org": MAX_PAGES - 1})
    many = WindowContent([NOTES, PAGE], pages={"example.org": MAX_PAGES})
    assert address(url, few) is None
    found = address(url, many)
    assert found is not None
    assert found.host == "example.org"


@pytest.mark.promise("P-guard")
def test_a_search_with_many_private_words_in_a_row_asks() -> None:
    assert judge(Sink(Route.QUERY, "the door code is tiger lilypad"), BOTH) is not None
    assert judge(Sink(Route.QUERY, "door code garden wiki"), BOTH) is None
    said = WindowContent([NOTES, PAGE], ["What does 'the door code is tiger.lilypad' mean?"])
    assert judge(Sink(Route.QUERY, "the door code is tiger lilypad"), said) is None


@pytest.mark.promise("P-guard")
def test_what_stays_asks_after_others_words_alone() -> None:
    later = Sink(Route.LASTING, "a task is set (every 10m)")
    found = judge(later, FOREIGN)
    assert found is not None
    assert found.reason == "After reading example.org: a task is set (every 10m). Its words may have asked for this."
    assert judge(later, WindowContent([NOTES])) is None
    assert judge(Sink(Route.FILE, "a file is sent to telegram:-1"), FOREIGN) is not None, "no call need have read it"


@pytest.mark.promise("P-guard")
def test_a_server_may_hear_again_what_it_said_itself_and_no_other_one() -> None:
    ticket = Part("tickets", "Ticket 12", foreign=True, private=True, server="tickets")
    own = Sink(Route.SEND, "A call of tickets", "tickets")
    assert judge(own, WindowContent([ticket])) is None
    assert judge(Sink(Route.SEND, "A call of mail", "mail"), WindowContent([ticket])) is not None
    assert judge(own, WindowContent([ticket, NOTES])) is not None


def test_a_question_names_the_latest_three_sources_once_each() -> None:
    parts = [Part(f"page {number}.test", foreign=True) for number in (1, 2, 3, 4, 4, 5)]
    found = judge(Sink(Route.OTHERS, "x"), WindowContent(parts))
    assert found is not None
    assert "page 5.test, page 4.test, page 3.test and 2 more" in found.reason


@pytest.mark.promise("P-guard")
def test_an_address_that_the_model_had_repeated_was_not_read() -> None:
    made = "https://evil.test/?d=tiger"
    printed = Part("a command", made, private=True)
    error = Part("search", f"nothing for {made}", foreign=True, is_source=True, asked=f"{{'query': '{made}'}}")
    for part in (printed, error):
        assert address(made, WindowContent([NOTES, PAGE, part])) is not None


@pytest.mark.promise("P-guard")
def test_names_before_a_domain_are_counted_as_its_pages() -> None:
    page = Part("letters.test", "http://a.letters.test/ http://b.letters.test/", foreign=True, is_source=True)
    seen = WindowContent([NOTES, page], pages={"letters.test": MAX_PAGES})
    assert address("http://b.letters.test/", seen) is not None


@pytest.mark.promise("P-guard")
def test_conversations_of_others_ask_after_a_page_and_not_after_one_s_own_conversations() -> None:
    others = Sink(Route.OTHERS, "conversations of others are searched")
    found_before = Part("a conversation", "words", foreign=True, private=True)
    assert judge(others, WindowContent([found_before])) is None
    assert judge(others, WindowContent([found_before, PAGE])) is not None
