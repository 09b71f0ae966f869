"""`python -m tests.fake_telegram [--port N] [--flood]`: the fake as a program, until SIGTERM or SIGINT."""

import argparse
import asyncio
import json
import signal
import sys

from tests.fake_telegram.control import ControlledTelegram


async def serve(port: int, *, flood: bool) -> None:
    """Print where the fake listens, then serve until a signal comes."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with ControlledTelegram(port=port, flood=flood) as telegram:
        sys.stdout.write(json.dumps({"base_url": telegram.base_url, "token": telegram.token}) + "\n")
        sys.stdout.flush()
        await stopped.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one")
    parser.add_argument("--flood", action="store_true", help="keep Telegram's flood limits")
    options = parser.parse_args()
    asyncio.run(serve(options.port, flood=options.flood))
