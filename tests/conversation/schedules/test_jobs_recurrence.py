"""When jobs are due, also where the clock is changed. The table of docs/schedules.md is this one."""

from datetime import datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.common.core.timezones import find_zone
from goclaw.conversation.schedules.jobs import Beat, Cron, Once, cron, interval
from goclaw.conversation.schedules.times import NoTime

BERLIN = find_zone("Europe/Berlin")


def due(expression: str, year: int, month: int, day: int, count: int) -> list[str]:
    """The next due times from noon of a day on."""
    rule, found = Cron(expression, "Europe/Berlin"), list[str]()
    moment = datetime(year, month, day, 12, tzinfo=BERLIN).timestamp()
    for _ in range(count):
        following = rule.after(moment)
        assert following is not None
        moment = following
        found.append(datetime.fromtimestamp(moment, BERLIN).strftime("%d %H:%M%z"))
    return found


@pytest.mark.parametrize(
    ("expression", "day", "times"),
    [
        # In spring 02:00 to 03:00 does not exist (28 March 2027).
        ("30 2 * * *", (2027, 3, 27), ["28 03:00+0200", "29 02:30+0200"]),
        ("0 3 * * *", (2027, 3, 27), ["28 03:00+0200", "29 03:00+0200"]),
        ("0 */6 * * *", (2027, 3, 27), ["27 18:00+0100", "28 00:00+0100", "28 06:00+0200"]),
        ("*/30 2 * * *", (2027, 3, 27), ["29 02:00+0200", "29 02:30+0200"]),
        # In autumn 02:00 to 03:00 comes twice (25 October 2026).
        ("30 2 * * *", (2026, 10, 24), ["25 02:30+0200", "26 02:30+0100"]),
        ("*/30 2 * * *", (2026, 10, 24), ["25 02:00+0200", "25 02:30+0200", "25 02:00+0100", "25 02:30+0100"]),
        ("30 8 * * 1-5", (2026, 10, 24), ["26 08:30+0100", "27 08:30+0100"]),
    ],
)
def test_a_fixed_time_runs_once_when_the_clock_is_changed_and_wildcards_follow_the_clock(
    expression: str, day: tuple[int, int, int], times: list[str]
) -> None:
    assert due(expression, *day, len(times)) == times


FREQUENT = ["30 2 * * *", "*/20 * * * *", "0 */2 * * *", "15 1-3 * * *", "0 0 1 * *"]


@given(st.floats(1.5e9, 2.2e9), st.sampled_from(FREQUENT))
def test_due_times_only_go_forward_wherever_one_begins(moment: float, expression: str) -> None:
    rule, times = Cron(expression, "Europe/Berlin"), [moment]
    for _ in range(4):
        following = rule.after(times[-1])
        assert following is not None
        times.append(following)
    assert all(earlier < later for earlier, later in pairwise(times))


@given(st.floats(1.5e9, 2.2e9), st.floats(60.0, 9e5), st.floats(0.0, 1e7))
def test_an_interval_keeps_to_its_anchor_however_late_one_looks(anchor: float, seconds: float, later: float) -> None:
    rule = interval(f"{int(seconds)}s", anchor)
    following = rule.after(anchor + later)
    assert following is not None and anchor + later < following <= anchor + later + rule.seconds + 1e-3
    steps = (following - anchor) / rule.seconds
    assert abs(steps - round(steps)) < 1e-3


def test_one_moment_is_due_once() -> None:
    assert Once(100.0, "").after(99.0) == 100.0
    assert Once(100.0, "").after(100.0) is None


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("* * * *", "it needs five fields"),
        ("0 * * * * *", "it needs five fields"),
        ("60 8 * * *", "bad minute"),
        ("0 8 31 2 *", "never due|bad day-of-month"),
        ("", "it needs five fields"),
    ],
)
def test_a_malformed_expression_is_refused_with_the_reason(expression: str, why: str) -> None:
    with pytest.raises(NoTime, match=why):
        cron(expression, "Europe/Berlin", 1.8e9)


@pytest.mark.parametrize(
    ("text", "why"), [("30s", "the minimum is 1m"), ("soon", "not an interval"), ("", "not an interval")]
)
def test_an_interval_has_a_minute_at_least(text: str, why: str) -> None:
    with pytest.raises(NoTime, match=why):
        interval(text, 0.0)


def test_rules_are_said_in_words() -> None:
    at = datetime(2026, 11, 24, 8, tzinfo=BERLIN).timestamp()
    assert Once(at, "Europe/Berlin").words == "Tuesday 24 November 2026, 08:00 (Europe/Berlin)"
    assert interval("2h", 0.0).words == "every 2 h"
    assert cron("30  8 * * 1-5", "Europe/Berlin", at).words == "cron `30 8 * * 1-5` (Europe/Berlin)"


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ("2026-11-24T07:10", "2026-11-24T08:00"),
        ("2026-11-24T08:00", "2026-11-24T08:30"),
        ("2026-11-24T21:10", "2026-11-24T21:30"),
        ("2026-11-24T21:30", "2026-11-25T08:00"),
        ("2027-03-27T22:00", "2027-03-28T08:00"),
    ],
)
def test_a_beat_is_counted_from_the_beginning_of_its_hours_and_ends_with_them(now: str, due: str) -> None:
    zone = BERLIN
    beat = Beat(1800.0, "08:00-22:00", "Europe/Berlin")
    after = beat.after(datetime.fromisoformat(now).replace(tzinfo=zone).timestamp())
    assert after == datetime.fromisoformat(due).replace(tzinfo=zone).timestamp()
