"""Moments as people say them in six languages: what is understood, what is not, and where they end in a text."""

from datetime import datetime
from pathlib import Path

import pytest

from goclaw.common.core.timezones import find_zone
from goclaw.conversation.schedules.moments import split_moment, understand_moment
from goclaw.conversation.schedules.times import NoTime, UnusableTime

BERLIN = find_zone("Europe/Berlin")
NOW = datetime(2026, 11, 25, 15, 30, tzinfo=BERLIN).timestamp()
"""A Wednesday."""
PHRASES = [line.split("\t") for line in Path(__file__).with_name("phrases.tsv").read_text().splitlines()]


def read(text: str) -> str:
    return f"{datetime.fromtimestamp(understand_moment(text, NOW, BERLIN).at, BERLIN):%Y-%m-%d %H:%M}"


@pytest.mark.parametrize(("language", "phrase", "meant"), PHRASES)
def test_a_time_is_understood_as_people_write_it(language: str, phrase: str, meant: str) -> None:
    assert read(phrase) == meant
    assert split_moment(f"{phrase} xyz 1, 2", NOW, BERLIN) == (phrase, "xyz 1, 2")


@pytest.mark.parametrize(
    ("phrase", "meant"),
    [
        ("wednesday 14:00", "2026-12-02 14:00"),
        ("wednesday 16:00", "2026-11-25 16:00"),
        ("today at 6", "2026-11-25 18:00"),
        ("24.11. 9:00", "2027-11-24 09:00"),
        ("tonight at 1", "2026-11-26 01:00"),
        ("tonight at midnight", "2026-11-26 00:00"),
        ("friday at 12am", "2026-11-27 00:00"),
        ("tomorrow at 8.30", "2026-11-26 08:30"),
        ("in 3 days at 9", "2026-11-28 09:00"),
        ("Monday the 30th of November at ten to nine", "2026-11-30 08:50"),
        ("Tomorrow, 8 p.m.", "2026-11-26 20:00"),
        ("9:00 tomorrow", "2026-11-26 09:00"),
        ("demain à une heure", "2026-11-26 01:00"),
    ],
)
def test_a_time_is_the_next_one_that_fits(phrase: str, meant: str) -> None:
    assert read(phrase) == meant


@pytest.mark.parametrize(
    "text",
    [
        "8",
        "8 eggs",
        "tomorrow",
        "friday",
        "once",
        "tomorrow due",
        "in 20",
        "31.02. 9:00",
        "tomorrow 25:00",
        "²pm",
        "8 at",
    ],
)
def test_what_is_too_vague_or_no_time_is_not_guessed(text: str) -> None:
    with pytest.raises(NoTime):
        read(text)


@pytest.mark.parametrize("text", ["30.11.2025 9:00", "today 8 am", "in 9999 weeks"])
def test_a_time_that_has_passed_or_is_far_away_says_so(text: str) -> None:
    with pytest.raises(UnusableTime, match=r"has passed|ten years"):
        read(text)


@pytest.mark.parametrize(
    ("written", "moment", "rest"),
    [
        ("20m tea", "20m", "tea"),
        ("8h tea", "8h", "tea"),
        ("tomorrow 8:00 call  mum", "tomorrow 8:00", "call  mum"),
        ("2026-12-24 18:00 presents\nand tree", "2026-12-24 18:00", "presents\nand tree"),
        ("8:00 9:00 is too late", "8:00", "9:00 is too late"),
        ("tomorrow 8 a cake", "tomorrow 8", "a cake"),
        ("8 pm feed the cat", "8 pm", "feed the cat"),
        ("8:00 sun cream", "8:00", "sun cream"),
        ("8:00 morning run", "8:00", "morning run"),
        ("um acht Müll rausbringen", "um acht", "Müll rausbringen"),
    ],
)
def test_a_text_begins_with_its_moment(written: str, moment: str, rest: str) -> None:
    assert split_moment(written, NOW, BERLIN) == (moment, rest)


@pytest.mark.parametrize("written", ["20m", "tomorrow 8:00", "call mum at 8:00", "", "tomorrow call mum"])
def test_a_moment_without_a_text_and_a_text_without_a_moment_are_refused(written: str) -> None:
    with pytest.raises(NoTime):
        split_moment(written, NOW, BERLIN)


@pytest.mark.parametrize(
    ("text", "by_duration", "has_offset"),
    [("20m", True, False), ("1h", True, False), ("à 1h", False, False),
     ("in 20 minutes", True, False), ("8:00", False, False), ("tomorrow 8", False, False),
     ("2026-12-24T18:00+00:00", False, True), ("2026-12-24T18:00Z", False, True), ("2026-12-24T18:00", False, False)],
)  # fmt: skip
def test_a_moment_says_whether_it_follows_the_clock_and_the_zone(
    text: str, by_duration: bool, has_offset: bool
) -> None:
    moment = understand_moment(text, NOW, BERLIN)
    assert (moment.by_duration, moment.has_offset) == (by_duration, has_offset)
