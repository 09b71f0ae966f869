"""Pages are kept for a while, and never more than there is room for."""

from goclaw.common.core.clock import SteppedClock
from goclaw.common.net.pages.base import Page
from goclaw.common.net.pages.service import PageCache


def page(url: str, length: int = 100) -> Page:
    return Page(url, 200, "text/plain", "", "x" * length)


def test_a_page_is_kept_for_its_time_and_knows_its_age() -> None:
    clock = SteppedClock()
    cache = PageCache(clock, 60, 10_000)
    cache.put("a", page("a"))
    clock.advance(59)
    found = cache.get("a")
    assert found and found.age == 59
    clock.advance(1)
    assert cache.get("a") is None
    assert cache.get("b") is None


def test_the_one_that_nobody_asked_for_goes_first() -> None:
    cache = PageCache(SteppedClock(), 60, 4_000)
    for name in ("a", "b"):
        cache.put(name, page(name, 1_000))
    cache.get("a")
    cache.put("c", page("c", 1_000))
    assert [cache.get(name) is not None for name in "abc"] == [True, False, True]


def test_what_is_larger_than_the_room_is_not_kept_and_drives_nobody_out() -> None:
    cache = PageCache(SteppedClock(), 60, 4_000)
    cache.put("a", page("a"))
    cache.put("b", page("b", 5_000))
    assert cache.get("a") and cache.get("b") is None


def test_a_page_takes_the_place_of_its_elder() -> None:
    cache = PageCache(SteppedClock(), 60, 4_000)
    for _ in range(20):
        cache.put("a", page("a", 1_000))
    found = cache.get("a")
    assert found and len(found.text) == 1_000


def test_without_time_nothing_is_kept() -> None:
    cache = PageCache(SteppedClock(), 0, 4_000)
    cache.put("a", page("a"))
    assert cache.get("a") is None
