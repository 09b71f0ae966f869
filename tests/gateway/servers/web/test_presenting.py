"""What pages have shown is not rendered again, within a bound."""

from goclaw.gateway.servers.web.presenting import HtmlCache


def test_the_html_that_was_used_last_is_kept() -> None:
    known = HtmlCache(10)
    known.store("a", "12345")
    known.store("b", "12345")
    assert known.find("a") == "12345"
    known.store("c", "12345")
    assert (known.find("a"), known.find("b"), known.find("c")) == ("12345", None, "12345")


def test_html_that_is_longer_than_the_bound_is_not_kept_and_the_same_text_counts_once() -> None:
    known = HtmlCache(10)
    for _ in range(3):
        known.store("a", "123456")
    assert known.find("a") == "123456"
    known.store("b", "x" * 11)
    assert (known.find("a"), known.find("b")) == (None, None)
    known.store("half \ud800", "x")
    assert known.find("half \ud800") == "x"
