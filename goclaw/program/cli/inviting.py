"""Invitations on the command line: by the daemon where one runs, else in the database of the state folder."""

from goclaw.channels.base import AccountPart
from goclaw.common.auth.invitations import carry_out
from goclaw.common.auth.users import login_name
from goclaw.common.config.schema import Config
from goclaw.common.config.state import open_state, running_pid
from goclaw.common.core import catalog
from goclaw.common.core.clock import RealClock
from goclaw.common.core.plugins import load
from goclaw.common.net import open_client
from goclaw.durable.store.open import open_database
from goclaw.durable.store.settings import Settings
from goclaw.errors import ChannelError, ConfigError


async def give_order(config: Config, order: str, rest: str = "") -> str:
    """Carry out `invite PRESET NAME`, `revoke CODE` or `waiting`; return the answer.

    Raises:
        GoclawError: it cannot be done; the message says why.
    """
    if running_pid(config):
        from goclaw.program.cli.send import send_and_wait  # only these commands talk to the daemon

        answer, went_well = await send_and_wait(config, f"/pair {order} {rest}".strip(), f"tui:{login_name()}")
        if not went_well:
            raise ConfigError(answer.strip())
        return answer.strip()
    with open_state(config):
        async with open_database(config.store_place) as database:
            said = await carry_out(Settings(database), order, rest, RealClock().now())
    return said or "Nobody is waiting."


async def invite(config: Config, preset: str, name: str, bot: str = "") -> str:
    """Invite a person; return the words for who passes the invitation on, with a link where the bot's name is known.

    `bot`: its name, `@claw_bot`; empty: it is asked for.
    """
    said = await give_order(config, "invite", f"{preset} {name}")
    bot = bot or await _bot_name(config)
    code = said.rpartition(" ")[2].replace("-", "")
    return f"{said}\nOr they open this link: https://t.me/{bot[1:]}?start={code}" if bot else said


async def _bot_name(config: Config) -> str:
    if config.telegram.token is None:
        return ""
    try:
        async with open_client() as http:
            return await load(catalog.ACCOUNTS["telegram"], AccountPart).open(config, http, RealClock()).name()
    except ChannelError:
        return ""
