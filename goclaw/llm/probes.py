"""Probes of a provider's server: whether a model answers and calls tools, and which models the server lists.

`try_call` makes one small request over the model's own wire. The list is for completing and checking a name.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import orjson

from goclaw.common.config.schema import Config, ProviderSettings
from goclaw.common.config.servers import DOUBLE_NAMES, SERVERS, place_of, provider_settings
from goclaw.common.core.clock import Clock
from goclaw.common.core.messages import UserMessage
from goclaw.common.core.records import record
from goclaw.common.core.redact import printable
from goclaw.common.net.client import read_whole
from goclaw.common.net.ollama import ollama_url, probe
from goclaw.common.specs import ToolSpec
from goclaw.errors import ConfigError, ModelError, ModelErrorKind
from goclaw.llm.anthropic import reach_api
from goclaw.llm.base import ChatModel, Finished, Request, Stop
from goclaw.llm.failures import connecting, fail, from_response, reading
from goclaw.llm.open import key_known
from goclaw.llm.served import CallStyle
from goclaw.llm.text_calls import read_block
from goclaw.llm.thinking_tags import without_thinking

MAX_SHOWN = 40
"""Characters of the answer that are shown."""


TRIAL_OUTPUT, TRIAL_SECONDS = 1_024, 120.0
"""Limits of a trial when a model is chosen. A call takes some 30 tokens, but some models think before it, and a local
model has to be loaded into memory.
"""
_NOTE = ToolSpec(
    "note",
    "Write a note.",
    {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The note."}},
        "required": ["text"],
        "additionalProperties": False,
    },
)
"""The tool of a trial. Nothing runs it."""


@record
class Trial:
    """The result of asking a model for one tool call."""

    said: str
    """Its words, on one short line; empty where it called the tool or only thought."""
    calls: CallStyle
    """UNTRIED: its answer ended at the limit before a call."""


async def try_call(model: ChatModel, *, max_output: int, seconds: float) -> Trial:
    """Offer a model one tool and ask for one call. It may cost something; nothing is run.

    Args:
        model: which one; afterwards it knows its window, where only the server can tell.
        max_output: tokens that the answer may have. Some models think before the call.
        seconds: how long it may take.

    Raises:
        ModelError: it does not answer.
        ConfigError: a model left to pydantic-ai has no such provider, or lacks a key.
    """
    messages = [UserMessage("Call the tool `note` with the text: ready")]
    question = Request("You do your work by calling tools.", messages, [_NOTE], max_output=max_output)
    done: Finished | None = None
    try:
        async with asyncio.timeout(seconds), model.stream(question) as events:
            async for event in events:
                done = event if isinstance(event, Finished) else done
    except TimeoutError:
        sentence = f"{model.spec}: no answer within {seconds:g} s; try again"
        raise ModelError(ModelErrorKind.TIMEOUT, sentence, spec=model.spec) from None
    if done is None or done.message.calls:
        return Trial("", CallStyle.STRUCTURED if done else CallStyle.UNTRIED)
    text = without_thinking(done.message.text)
    if read_block(text):
        return Trial("", CallStyle.TEXT)
    line = " ".join(printable(text).split())
    said = line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]}…"
    return Trial(said, CallStyle.UNTRIED if done.stop is Stop.LENGTH else CallStyle.NONE)


LIST_SECONDS = 10.0
"""Time limit of a server to list its models."""
MAX_LIST_BYTES = 8 << 20
"""Maximum size of a list; the longest known one (OpenRouter) has less than one megabyte."""
LISTING = frozenset({"anthropic", "ollama", *SERVERS})
"""Providers whose servers list their models."""


async def model_names(provider: str, config: Config, http: aiohttp.ClientSession, clock: Clock) -> Sequence[str]:
    """Ask one of `LISTING` which models it has.

    Args:
        provider: its name.
        config: where it is, and its key.
        http: the shared client.
        clock: for dates in refusals.

    Returns:
        Names without the provider, sorted; no embedders, where the server marks them.

    Raises:
        ConfigError: a key or an address is missing.
        ModelError: the server does not answer, or with something else.
    """
    settings = provider_settings(config.providers, provider)
    if provider == "ollama":
        return await _of_ollama(ollama_url(settings), http)
    url, headers = _list_address(provider, settings)
    try:
        async with asyncio.timeout(LIST_SECONDS):
            with connecting(provider):
                response = await http.get(url, headers=headers, allow_redirects=False)
            async with response:
                with reading(provider):
                    body = await read_whole(response, MAX_LIST_BYTES) or b""
                    if response.status >= 300:
                        raise from_response(provider, response.status, body, response.headers, clock.now())
                    return sorted(_names(orjson.loads(body)))
    except TimeoutError:
        raise fail(ModelErrorKind.TIMEOUT, provider) from None


async def all_names(
    providers: Sequence[str], config: Config, http: aiohttp.ClientSession, clock: Clock
) -> tuple[Sequence[str], Mapping[str, str]]:
    """Ask several providers at the same time.

    Returns:
        Their models, as `provider:name`, and why a provider could not be asked, by its name.
    """

    async def ask(provider: str) -> Sequence[str] | str:
        try:
            return [f"{provider}:{name}" for name in await model_names(provider, config, http, clock)]
        except (ConfigError, ModelError) as error:
            return str(error)

    answers = dict(zip(providers, await asyncio.gather(*map(ask, providers)), strict=True))
    listed = [name for answer in answers.values() if not isinstance(answer, str) for name in answer]
    return listed, {provider: answer for provider, answer in answers.items() if isinstance(answer, str)}


def usable_providers(config: Config) -> Sequence[str]:
    """Return the providers that could be asked immediately: a key is known, an address configured, or it is Ollama."""
    named = [name for name in sorted(LISTING - DOUBLE_NAMES) if key_known(config, name)]
    placed = [name for name, settings in config.providers.items() if settings.base_url and name in LISTING]
    return list(dict.fromkeys(["ollama", *named, *placed]))


async def _of_ollama(base_url: str, http: aiohttp.ClientSession) -> Sequence[str]:
    server = await probe(http, base_url)
    if server is None:
        raise fail(ModelErrorKind.NETWORK, "ollama", sentence=f"Ollama does not answer at {base_url}")
    chatting = (model for model in server.models if not model.capabilities or "completion" in model.capabilities)
    return sorted(model.name for model in chatting)


def _list_address(provider: str, settings: ProviderSettings) -> tuple[str, Mapping[str, str]]:
    """Return the URL of the list, and the headers with the key."""
    if provider != "anthropic":
        base_url, headers = place_of("models", provider, settings, SERVERS)
        return f"{base_url.rstrip('/')}/models", headers
    base_url, headers = reach_api(provider, settings)
    return f"{base_url}/models?limit=1000", headers


def _names(listed: Any) -> set[str]:
    """Return the ids in an answer; Together sends the list alone, Gemini puts `models/` before each."""
    rows = listed["data"] if isinstance(listed, dict) else listed
    return {str(row["id"]).removeprefix("models/") for row in rows}
