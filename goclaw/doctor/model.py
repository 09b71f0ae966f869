"""The doctor's check of the model: it is asked one word, and its window is compared with what every request holds."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from goclaw.agent.overhead import of_a_new_conversation
from goclaw.agent.prompt import BASE, SystemPrompt
from goclaw.clock import RealClock
from goclaw.config.load import Loaded
from goclaw.config.schema import Config
from goclaw.context.budget import ContextBudget, percent
from goclaw.doctor.base import Finding
from goclaw.errors import ConfigError, ModelError
from goclaw.llm.base import ChatModel, Loading, Looking, ModelPorts
from goclaw.llm.open import DEMO, is_free, ollama_finder, open_chain, open_model, pick_default
from goclaw.llm.ping import ping
from goclaw.net import open_client
from goclaw.specs import ToolSpec
from goclaw.state import private_paths, running_pid
from goclaw.workspace import Workspace

ASK_SECONDS = 60.0
"""Time limit of the answer: a local model has to be loaded into memory."""
MAX_OUTPUT = 16
"""Tokens of the answer: the fewest that every provider allows, so that the question costs next to nothing."""
OUTPUT_SPENT = "output limit was reached"
"""In OpenAI's refusal (HTTP 400) when a model has thought until `MAX_OUTPUT`: it was there, and so was the key."""
_CHECK = "model"
_REMEDY = "mend that, or choose another one with `goclaw model`; then `goclaw restart`"
_OFFLINE = "Not asked (--offline)."


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
        ports = ModelPorts(http, _no_image, RealClock())
        specs, sentence = await pick_default(config, ollama_finder(config, ports))
        sentence = sentence.removeprefix("Model: ")
        if specs == (DEMO,):
            return [Finding(_CHECK, "warning", sentence)]
        open_chain(specs, config, ports)
        model = open_model(specs[0], config, ports)
        found = await (budget_of if offline else prepared)(config, model, await tools)
        if offline:
            asked = Finding(_CHECK, "ok", f"{sentence} {_OFFLINE}")
        else:
            if not is_free(model.spec, config):
                tell(f"asking {model.spec} for one word, which may cost a little; --offline leaves it out")
            asked = await _asked(model, sentence)
        return [asked, _window(found)]


async def _asked(model: ChatModel, sentence: str) -> Finding:
    try:
        said = await ping(model, max_output=MAX_OUTPUT, seconds=ASK_SECONDS)
    except (ConfigError, ModelError) as error:
        if OUTPUT_SPENT not in str(error):
            return Finding(_CHECK, "problem", str(error), _REMEDY)
        said = ""
    return Finding(_CHECK, "ok", f"{sentence} It answers{f': {said}' if said else ''}")


async def prepared(config: Config, model: ChatModel, tools: Sequence[ToolSpec]) -> ContextBudget:
    """Prepare a model for one request with the window that the daemon uses, as another would load it anew.

    Args:
        config: the configuration.
        model: which one; afterwards it knows its window, where its server tells.
        tools: what the main agent may use.

    Returns:
        What the first request of a conversation would hold.
    """
    if isinstance(model, Looking):
        await model.look()
    found = await budget_of(config, model, tools)
    if isinstance(model, Loading):
        await model.settle(found.used, in_use=await asyncio.to_thread(running_pid, config) is not None)
    return found


async def budget_of(config: Config, model: ChatModel, tools: Sequence[ToolSpec]) -> ContextBudget:
    """Estimate what the first request of a conversation holds of the model's window.

    Args:
        config: the configuration.
        model: which one; it knows its window.
        tools: what the main agent may use.
    """
    # The first look at a model's data takes some tenths of a second.
    window = await asyncio.to_thread(lambda: model.context_window)
    return of_a_new_conversation(config, model.spec, window, await _system_prompt(config), tools)


async def _system_prompt(config: Config) -> str:
    async with _workspace(config) as workspace:
        return await SystemPrompt().system(workspace) if workspace else BASE


@asynccontextmanager
async def _workspace(config: Config) -> AsyncIterator[Workspace | None]:
    """Open the configured workspace; None: it does not exist yet, and nothing is made here."""
    if not config.workspace_path.is_dir():
        yield None
        return
    async with Workspace(config.workspace_path, private_paths(config)) as workspace:
        yield workspace


def _window(found: ContextBudget) -> Finding:
    """Report the use of the window, and the remedy where that is too much."""
    if not found.fits:
        return Finding("window", "problem", found.sentence(), " ".join(found.advice()))
    share = percent(found.overhead, found.window)
    return Finding("window", "ok", f"{found.sentence()} Before anything is said {share} of it is taken.")


async def _no_image(key: str) -> bytes:
    raise AssertionError(f"no picture is asked for here: {key}")
