"""Our own limits keep us below Telegram's."""

import asyncio

from goclaw.channels.telegram.rate_limits import RateLimiter
from goclaw.common.config.schema import TelegramSettings
from goclaw.common.core.clock import SteppedClock


async def fill(limiter: RateLimiter, clock: SteppedClock, chat: int, count: int) -> list[float]:
    """The times at which `count` messages in a row may go out, on a clock that jumps to the next waiter."""
    times: list[float] = []
    began = clock.now()

    async def send() -> None:
        for _ in range(count):
            await limiter.pace(chat)
            times.append(round(clock.now() - began, 3))

    sending = asyncio.create_task(send())
    async with asyncio.timeout(10):
        while not sending.done():
            await asyncio.sleep(0)
            if clock.sleepers:
                clock.advance(0.25)
    await sending
    return times


async def test_a_chat_takes_three_at_once_and_then_one_a_second() -> None:
    clock = SteppedClock()
    assert await fill(RateLimiter(TelegramSettings(), clock), clock, 5, 6) == [0, 0, 0, 3, 3, 3]


async def test_a_group_takes_twenty_a_minute() -> None:
    clock = SteppedClock()
    times = await fill(RateLimiter(TelegramSettings(), clock), clock, -5, 25)
    assert times[19] < 60 <= times[20]


async def test_all_chats_together_take_thirty_a_second() -> None:
    clock = SteppedClock()
    limiter = RateLimiter(TelegramSettings(), clock)
    for chat in range(1, 31):
        await limiter.pace(chat)
    assert await fill(limiter, clock, 99, 1) == [1]


async def test_a_wish_to_wait_holds_one_chat_only() -> None:
    clock = SteppedClock()
    limiter = RateLimiter(TelegramSettings(), clock)
    limiter.pause(5, 40)
    assert await fill(limiter, clock, 6, 1) == [0]
    assert await fill(limiter, clock, 5, 1) == [40]


async def test_previews_leave_room_for_the_answer() -> None:
    clock = SteppedClock()
    limiter = RateLimiter(TelegramSettings(), clock)
    assert [limiter.spare(-5) for _ in range(4)] == [True, True, False, False]
    assert await fill(limiter, clock, -5, 1) == [0]
    limiter.pause(-6, 5)
    assert not limiter.spare(-6)


async def test_previews_leave_a_quarter_of_a_groups_minute() -> None:
    clock = SteppedClock()
    limiter = RateLimiter(TelegramSettings(), clock)
    shown = 0
    for _ in range(19):
        shown += limiter.spare(-5)
        clock.advance(3)
    assert shown == 15


async def test_large_limits_never_wait() -> None:
    settings = TelegramSettings(messages_per_second=1e6, chat_messages_per_second=1e6, group_messages_per_minute=1e6)
    clock = SteppedClock()
    assert await fill(RateLimiter(settings, clock), clock, -5, 500) == [0] * 500


async def test_chats_that_went_quiet_are_forgotten() -> None:
    clock = SteppedClock()
    limiter = RateLimiter(TelegramSettings(messages_per_second=1e6), clock)
    for chat in range(1, 1_001):
        await limiter.pace(chat)
    clock.advance(100)
    await limiter.pace(2_000)
    assert len(limiter._chats) == 1, "the only way to see what is remembered"


async def test_the_burst_is_configured() -> None:
    clock = SteppedClock()
    settings = TelegramSettings(burst=5, chat_messages_per_second=2)
    assert await fill(RateLimiter(settings, clock), clock, 5, 7) == [0, 0, 0, 0, 0, 2.5, 2.5]


async def test_a_wish_to_something_for_show_never_holds_an_answer() -> None:
    clock = SteppedClock()
    limiter = RateLimiter(TelegramSettings(), clock)
    limiter.pause_shows(5, 200)
    assert not limiter.may_show(5) and not limiter.spare(5) and limiter.may_show(6)
    assert await fill(limiter, clock, 5, 1) == [0]
    clock.advance(200)
    assert limiter.may_show(5)


async def test_what_counts_as_no_message_waits_for_a_wish_only() -> None:
    clock = SteppedClock()
    limiter = RateLimiter(TelegramSettings(), clock)
    for _ in range(3):
        await limiter.pace(5)
    async with asyncio.timeout(10):
        await limiter.cool(5)
        limiter.pause(5, 40)
        limiter.pause(5, 10)
        cooling = asyncio.create_task(limiter.cool(5))
        await asyncio.sleep(0)
        clock.advance(39)
        await asyncio.sleep(0)
        assert not cooling.done(), "a shorter wish does not cut a longer one"
        clock.advance(1)
        await cooling
