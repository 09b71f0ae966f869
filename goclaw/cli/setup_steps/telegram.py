"""The steps that check the Telegram bot and identify its owner by a code shown in this terminal."""

import asyncio
import secrets

from pydantic import SecretStr

from goclaw import catalog
from goclaw.channels.base import Account, AccountPart
from goclaw.cli.setup_steps.answers import AdminAnswer, BotChoice, Scene, ask_secret
from goclaw.config.policies import ADMIN
from goclaw.config.schema import Config
from goclaw.errors import ChannelError, ConfigError, GoclawError
from goclaw.plugins import load
from goclaw.state import running_pid
from goclaw.users import Users, key_problem

CODE_DIGITS = 8
"""Digits of the code: too many to guess in the 100 messages that can wait for a bot, few enough to type."""
CODE_SECONDS = 300.0
"""Lifetime of the code."""


async def choose_bot(scene: Scene, token: str = "") -> BotChoice | None:
    """Return the bot that people write to, tried out with getMe; None when the person skipped it.

    With a `token` nothing is asked.

    Raises:
        GoclawError: the given `token` does not do; the message says why.
    """
    if scene.dialogue.silent and not token:
        return None
    scene.dialogue.say("\n2. Telegram")
    if token:
        return await _try(scene, token)
    known = scene.loaded.config.telegram.token
    if known:
        scene.dialogue.say(f"   There is a token already ({scene.loaded.origin(('telegram', 'token'))}).")
        question = "   Another token (hidden) [Enter: keep it]:"
    else:
        scene.dialogue.say("   @BotFather in Telegram makes a bot (/newbot) and gives you its token.")
        question = "   Token (hidden) [Enter: without Telegram]:"
    while typed := await ask_secret(scene.dialogue, question):
        try:
            return await _try(scene, typed)
        except GoclawError as error:
            scene.dialogue.say(f"   ✗ {error}")
    return await _kept(scene) if known else None


async def find_owner(scene: Scene, bot: BotChoice | None, seconds: float = CODE_SECONDS) -> AdminAnswer | None:
    """Return the person who sends the bot the code of this terminal, or whose id is typed; None when skipped."""
    if scene.dialogue.silent or bot is None or _has_admin(scene):
        return None
    scene.dialogue.say("\n3. You")
    pid = running_pid(scene.loaded.config)
    known = scene.loaded.config.telegram.token
    if pid and known and bot.token in ("", known.get_secret_value()):
        # Two readers of one bot would take turns being thrown out by Telegram.
        scene.dialogue.say(
            f"   GoClaw runs (pid {pid}) and reads this bot's messages: `goclaw stop`, then `goclaw setup` again. Or\n"
            "   write to the bot, and `goclaw logs` shows your id."
        )
        return await _typed_owner(scene)
    try:
        return await _meet(scene, bot, seconds)
    except ChannelError as error:
        scene.dialogue.say(f"   ✗ {error}")
        return await _typed_owner(scene)


def owner_of(number: str) -> AdminAnswer:
    """Return the person with this numeric id.

    Raises:
        ConfigError: it is no numeric id.
    """
    key = f"telegram:{number}"
    if problem := key_problem(key):
        raise ConfigError(f"{number}: {problem}")
    return AdminAnswer(key)


async def _meet(scene: Scene, bot: BotChoice, seconds: float) -> AdminAnswer | None:
    account = _account(scene, bot.token)
    code = "".join(secrets.choice("0123456789") for _ in range(CODE_DIGITS))
    scene.dialogue.say(
        "   The bot answers only people who are listed. To be its admin, send it\n"
        f"   this code in a private chat (https://t.me/{bot.name[1:]}):\n\n       {code}\n"
    )
    question = f"   Waiting {seconds / 60:g} minutes. Or type your numeric Telegram id [Enter: skip]:"
    try:
        async with asyncio.timeout(seconds):
            while True:
                met = await scene.dialogue.ask_beside(question, account.meet(code))
                if not isinstance(met, str):
                    scene.dialogue.say(f"   ✓ {met.name or 'Somebody'} ({met.key}) sent it.")
                    return AdminAnswer(met.key, met.name)
                if not met:
                    return None
                try:
                    return owner_of(met)
                except ConfigError as error:
                    scene.dialogue.say(f"   ✗ {error}")
    except TimeoutError:
        scene.dialogue.say(f"\n   ✗ Nobody sent {code} in time. `goclaw setup` tries again, whenever you like.")
        return None


async def _typed_owner(scene: Scene) -> AdminAnswer | None:
    while typed := await scene.dialogue.ask("   Your numeric Telegram id [Enter: skip]:"):
        try:
            return owner_of(typed)
        except ConfigError as error:
            scene.dialogue.say(f"   ✗ {error}")
    return None


async def _kept(scene: Scene) -> BotChoice | None:
    """Return the bot of the token that is configured; None when it does not answer."""
    try:
        return await _try(scene, "")
    except GoclawError as error:
        scene.dialogue.say(f"   ✗ {error}")
        return None


async def _try(scene: Scene, token: str) -> BotChoice:
    """Return the bot of `token`, or of the configured one. Raises GoclawError when Telegram knows none."""
    name = await _account(scene, token).name()
    scene.dialogue.say(f"   ✓ {name} answers")
    return BotChoice(name, token)


def _account(scene: Scene, token: str) -> Account:
    part = load(catalog.ACCOUNTS["telegram"], AccountPart)
    config = scene.loaded.config
    return part.open(with_token(config, token) if token else config, scene.http, scene.clock)


def with_token(config: Config, token: str) -> Config:
    """Return the configuration as it will be with this token."""
    telegram = config.telegram.model_copy(update={"token": SecretStr(token)})
    return config.model_copy(update={"telegram": telegram})


def _has_admin(scene: Scene) -> bool:
    """Return whether a Telegram user has the role already, and print who."""
    for user in Users.read(scene.loaded.config.users_path).all():
        if user.key.startswith("telegram:") and ADMIN in user.roles:
            scene.dialogue.say(f"\n3. You\n   {user.name or 'Somebody'} ({user.key}) is admin already.")
            return True
    return False
