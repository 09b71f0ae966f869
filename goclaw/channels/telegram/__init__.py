"""Telegram, through python-telegram-bot's typed Bot API. This file and the
first poll are all that is imported while it is switched off.

An interim text in a chat takes over the live message that already shows it: `live_message_ids` assigns that message
to the delivery, on disk before the edit, and the turn continues in a new live message.
"""

from contextlib import AbstractAsyncContextManager

from goclaw.channels.base import Channel, ChannelPart, ChannelPorts
from goclaw.channels.telegram.first_poll import start
from goclaw.common.config.schema import Config
from goclaw.common.core.extras import standing_in, undocumented, without
from goclaw.common.core.plugins import load


def enabled(config: Config) -> bool:
    """As configured; without a word on it, when there is a token."""
    wanted = config.telegram.enabled
    return config.telegram.token is not None if wanted is None else wanted


def open_channel(config: Config, ports: ChannelPorts) -> AbstractAsyncContextManager[Channel]:
    """Return the channel itself; only now the library is imported (100 ms and 5 MB).

    It comes without what reads Telegram's passports, without an HTTP client of its own (ours is `request`), and without
    its manual.
    """
    client = standing_in("telegram.request._httpxrequest", HTTPXRequest=type("HTTPXRequest", (), {}))
    with without("cryptography"), undocumented("goclaw", "telegram", untyped=True), client:
        part = load("goclaw.channels.telegram.channel:PART", ChannelPart)
    return part.open(config, ports)


CHANNEL = ChannelPart("telegram", enabled, open_channel, start)
