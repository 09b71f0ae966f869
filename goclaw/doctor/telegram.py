"""A check that Telegram answers, knows the token, and calls the right webhook."""

from typing import Any

import aiohttp

from goclaw.config.listening import uses_webhook
from goclaw.config.schema import Config, TelegramSettings
from goclaw.config.values import contexts_of
from goclaw.doctor.base import Finding
from goclaw.net import open_client
from goclaw.redact import mask
from goclaw.state import running_pid


async def check_telegram(config: Config) -> list[Finding]:
    """Report the bot and its webhook as the server knows them."""
    settings = config.telegram
    if settings.token is None or settings.enabled is False:
        return [Finding("telegram", "ok", "off", "set `telegram.token` or TELEGRAM_BOT_TOKEN to turn it on")]
    try:
        async with open_client() as http:
            me = await _asked(http, settings, "getMe")
            if not me.get("ok"):
                remedy = "ask @BotFather for a token, set `telegram.token`"
                return [Finding("telegram", "problem", f"the token was refused: {me.get('description')}", remedy)]
            found = await _asked(http, settings, "getWebhookInfo")
    except (aiohttp.ClientError, ValueError, OSError) as error:
        return [Finding("telegram", "problem", f"{settings.base_url} does not answer: {mask(str(error))}")]
    name = Finding("telegram", "ok", f"@{me['result'].get('username')} answers")
    return [name, *_privacy(settings, me["result"]), *_webhook(config, found.get("result") or {})]


async def _asked(http: aiohttp.ClientSession, settings: TelegramSettings, method: str) -> dict[str, Any]:
    token = settings.token.get_secret_value() if settings.token else ""
    url = f"{settings.base_url.rstrip('/')}/bot{token}/{method}"
    async with http.get(url, proxy=settings.proxy) as response:
        answer = await response.json(content_type=None)
    if not isinstance(answer, dict):
        raise ValueError("it is no Bot API server")
    return answer


def _privacy(settings: TelegramSettings, me: dict[str, Any]) -> list[Finding]:
    """Check that the bot gets the messages of groups that it needs (`telegram.groups.<id>.context`)."""
    wanted = [str(group) for group, context in contexts_of(settings.groups).items() if context]
    if not wanted or me.get("can_read_all_group_messages"):
        return []
    text = f"privacy mode hides what people say to each other in {', '.join(wanted)} (telegram.groups: context)"
    remedy = "@BotFather, /setprivacy: disable it, then add the bot anew; or make the bot an admin of the group"
    return [Finding("groups", "warning", text, remedy)]


def _webhook(config: Config, found: dict[str, Any]) -> list[Finding]:
    """Compare Telegram's webhook with the configured one."""
    url, wanted = str(found.get("url") or ""), config.telegram.webhook.url if uses_webhook(config) else None
    if wanted is None:
        text = "a webhook is set, but telegram.mode is polling; the daemon removes it when it starts"
        return [Finding("webhook", "warning", text)] if url else []
    if url != wanted:
        running = running_pid(config) is not None
        text = f"Telegram does not call {wanted}" + ("" if running else " yet; it is told when the daemon starts")
        remedy = "look for the reason in `goclaw logs --level warning`" if running else ""
        return [Finding("webhook", "problem" if running else "ok", text, remedy)]
    waiting = found.get("pending_update_count") or 0
    if waiting and (error := found.get("last_error_message")):
        remedy = "see that the address leads to the listener: https, the proxy's target, `http.hosts`"
        return [Finding("webhook", "warning", f"{waiting} update(s) wait; Telegram says: {mask(str(error))}", remedy)]
    return [Finding("webhook", "ok", f"Telegram calls {wanted}; {waiting} update(s) wait")]
