"""The models that answer. They are found in the background, so that looking for an Ollama server delays no start.

A session uses the configured chain, or the model chosen for it (`/model`) with the configured chain as fallback.

The demo says in each answer that no AI is connected; a real model that reads this repeats it. While the demo answers no
summary, checkpoint or note is written; the first real model after it sees none of those turns (`DemoTurns`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace

from goclaw.common.config.schema import Config
from goclaw.common.core.records import record
from goclaw.common.core.supervise import result_of
from goclaw.conversation.agent.context.compaction import Summarizer, SummarySource
from goclaw.conversation.sessions.state import DEMO_SINCE, VIEW, Contexts, DemoSince, Session
from goclaw.durable.store.settings import Settings
from goclaw.durable.store.transcripts import LAST_ROW
from goclaw.errors import ConfigError
from goclaw.llm.base import ChatModel, Looking, ModelPorts
from goclaw.llm.chain import ModelChain
from goclaw.llm.open import (
    DEMO,
    find_models,
    is_free,
    ollama_finder,
    open_model,
    pick_default,
    pick_summary,
    prepare,
    server_finder,
    unplaceable,
)

log = logging.getLogger(__name__)

SETTING = "model"
"""The session's setting for its chosen model."""


@record
class AvailableModel:
    """A model that could answer."""

    spec: str
    why: str
    configured: bool = False
    """Named in the configuration, or what answers without one: all may have it answer in sessions of their own."""


class Models:
    """The main model, those that summarise, and those that sessions have chosen. `resolve` finds the first two."""

    def __init__(self, config: Config, ports: ModelPorts, notice: Callable[[str], None], stored: Settings) -> None:
        self._config = config
        self._ports = ports
        self._notice = notice
        self._stored = stored
        self._agent: asyncio.Future[ModelChain] = asyncio.get_running_loop().create_future()
        self._summary: ChatModel | None = None
        self._opened: dict[str, ChatModel] = {}
        """By spec: a model settles its window once, for all chains that it is in."""
        self._chosen: dict[str, str] = {}
        """By session, as far as it was asked for; empty: none."""
        self._chains: dict[tuple[str, ...], ModelChain] = {}
        """By the models that were chosen."""
        self._alone: dict[tuple[str, ...], ModelChain] = {}
        """The same, with nothing behind them."""
        self._refused: dict[str, str] = {}
        """Why a model that was chosen cannot be opened (any more)."""
        self.served = ports.served
        """Facts of models from their servers."""
        self.sentence = "Model: still being selected."
        """Which model answers, why, and how to change it: for people."""
        self.summary_specs: tuple[str, ...] = ()

    async def agent(self, session: str = "") -> ChatModel:
        """Return the chain that answers in a session; without one, the configured chain.

        Raises:
            ConfigError: a model of the configuration cannot be opened.
        """
        chosen = await self.choice_for(session) if session else ""
        if chosen and chosen not in self._refused:
            try:
                return await self._chain(chosen)
            except ConfigError as error:
                self._refused[chosen] = str(error)
                log.warning("%s was chosen with /model but cannot be used: %s", chosen, error)
        return await result_of(self._agent)

    async def answering(self, session: str, first: Sequence[str]) -> ChatModel:
        """Return the chain that answers in a session, with `first` before it where an agent has models of its own.

        Raises:
            ConfigError: a model cannot be opened.
        """
        return await self._chain(*first) if first else await self.agent(session)

    async def only(self, specs: Sequence[str]) -> ChatModel:
        """Return the chain of these models, with no other after them.

        Raises:
            ConfigError: a model cannot be opened.
        """
        key = tuple(specs)
        if key not in self._alone:
            self._alone[key] = self._build_chain(await self._open(key))
        return self._alone[key]

    async def choice_for(self, session: str) -> str:
        """Return the model that was chosen for a session; empty: none."""
        if session not in self._chosen:
            self._chosen[session] = str((await self._stored.of_session(session)).get(SETTING, ""))
        return self._chosen[session]

    async def behind(self, session: str) -> list[str]:
        """Return the models of a session, each the fallback of the one before it.

        Raises:
            ConfigError: none can be opened.
        """
        agent = await self.agent(session)
        return [model.spec for model in agent.models] if isinstance(agent, ModelChain) else [agent.spec]

    async def choose(self, session: str, spec: str) -> None:
        """Let `spec` answer in a session from its next request on; empty: the configured one.

        Raises:
            ConfigError: it cannot be opened; the message says what helps. Nothing has changed.
        """
        if spec:
            if problems := list(unplaceable(spec, "agents.main", self._config.agents.main)):
                raise ConfigError(*problems)
            await self._check_presence(spec)
            await self._chain(spec)
            self._refused.pop(spec, None)
        await self._stored.set(session, SETTING, spec or None)
        self._chosen[session] = spec

    def forget(self, session: str) -> None:
        """Forget the choice of a session after its settings were deleted."""
        self._chosen.pop(session, None)

    def refusal(self, spec: str) -> str:
        """Return why a model that was chosen does not answer; empty: it does."""
        return self._refused.get(spec, "")

    async def choices(self) -> tuple[Sequence[AvailableModel], Sequence[str]]:
        """Return the models that could answer, current ones first, and providers with a key but no obvious model."""
        found = await find_models(
            self._config,
            ollama_finder(self._config, self._ports),
            find_servers=server_finder(self._config, self._ports),
        )
        main = [model.spec for model in self._agent.result().models] if self.main else []
        configured = self._config.models.agent or self._config.agents.main.model
        why = "in the configuration" if configured else "found automatically"
        there = found.ollama.models if found.ollama else ()
        # An old server does not report a model's capabilities.
        pulled = [model for model in there if not model.capabilities or "completion" in model.capabilities]
        choices: dict[str, AvailableModel] = {}
        for choice in (
            *(AvailableModel(spec, why, configured=True) for spec in main),
            *(AvailableModel(spec, "in `models.options`", configured=True) for spec in self._config.models.options),
            *(AvailableModel(candidate.spec, candidate.reason) for candidate in found.candidates),
            *(AvailableModel(f"ollama:{model.name}", "pulled in Ollama") for model in pulled),
        ):
            choices.setdefault(choice.spec, choice)
        return list(choices.values()), found.keyed

    @property
    def main(self) -> str:
        """The main model's `provider:name`, or empty while it is being looked for."""
        if self._agent.done() and self._agent.exception() is None:
            return self._agent.result().spec
        return ""

    @property
    def failed(self) -> bool:
        """No model could be opened; `sentence` says why."""
        return self._agent.done() and self._agent.exception() is not None

    @property
    def is_demo(self) -> bool:
        """No AI is connected."""
        return self.main == DEMO

    async def summarizers(self, session: str = "", instead: str = "") -> list[Summarizer]:
        """Return the models for a session's summaries, first choice first; `instead` replaces the summary chain.

        A main model that the summary chain holds is asked once, with the whole time.

        Raises:
            ConfigError: a model cannot be opened.
        """
        main = await self.agent(session)
        summary = await self._chain(instead) if instead else self._summary
        # The demo model repeats its input: that is no summary.
        is_main = summary is not None and main.spec != DEMO and _specs(main) <= _specs(summary)
        found = [] if summary is None else [(SummarySource.LLM, summary)]
        found += [] if is_main or main.spec == DEMO else [(SummarySource.FALLBACK, main)]
        return [
            Summarizer(
                source, model, is_free=all(is_free(spec, self._config) for spec in _specs(model)), is_main=is_main
            )
            for source, model in found
        ]

    async def resolve(self) -> None:
        """Find and open the models; `agent` waits for this. Runs in the background, when the channels run."""
        find_ollama = ollama_finder(self._config, self._ports)
        try:
            specs, chosen = await pick_default(self._config, find_ollama)
            self.sentence = f"Model: {chosen}"
            chain = self._build_chain(await self._open(specs))
            self.summary_specs = await pick_summary(self._config, find_ollama)
            if self.summary_specs:
                self._summary = self._build_chain(await self._open(self.summary_specs))
        except ConfigError as error:
            self.sentence = f"Model: none. {error}"
            self._agent.set_exception(error)
            self._agent.exception()  # retrieved, as no caller may ever ask for it
        else:
            self._agent.set_result(chain)
        finally:
            if not self._agent.done():  # callers that wait for a model must not wait forever
                self._agent.set_exception(ConfigError("no model can be used; see the log for the reasons"))
                self._agent.exception()
        log.info("%s", self.sentence)

    async def _chain(self, *specs: str) -> ModelChain:
        """Return the chain of `specs` with the configured chain after it; the demo is no fallback and has none."""
        if specs not in self._chains:
            first = await self._open(specs)
            try:
                behind = (await result_of(self._agent)).models if DEMO not in specs else ()
            except ConfigError:
                behind = ()
            others = [model for model in behind if model.spec not in (*specs, DEMO)]
            self._chains[specs] = self._build_chain([*first, *others])
        return self._chains[specs]

    def _build_chain(self, models: Sequence[ChatModel]) -> ModelChain:
        return ModelChain(models, self._ports.clock, self._notice, self._ports.watches, self._ports.local_wait)

    async def _open(self, specs: Sequence[str]) -> list[ChatModel]:
        """Return the models, each opened once, with their known properties. Raises ConfigError: one cannot be."""
        for spec in specs:
            if spec not in self._opened:
                self._opened[spec] = open_model(spec, self._config, self._ports)
        if DEMO not in specs:
            await prepare(specs, self._ports.clock.now())
        models = [self._opened[spec] for spec in specs]
        await asyncio.gather(*(model.look() for model in models if isinstance(model, Looking)))
        return models

    async def _check_presence(self, spec: str) -> None:
        provider, _, name = spec.partition(":")
        if provider != "ollama" or not name:
            return
        server = await ollama_finder(self._config, self._ports)()
        if server and not server.find(name):
            raise ConfigError(
                f"{spec}: Ollama at {server.base_url} does not have this model; get it with `ollama pull {name}`"
            )


def _specs(model: ChatModel) -> set[str]:
    """Return the models that may answer in the place of `model`."""
    return {each.spec for each in model.models} if isinstance(model, ModelChain) else {model.spec}


@record
class DemoTurns:
    """Notes where the demo began to answer in a session, and leaves its turns out when a real model follows."""

    contexts: Contexts
    stored: Settings

    async def before_request(
        self, session: Session, turn: str, spec: str, tell: Callable[[str], Awaitable[None]]
    ) -> None:
        """Note the model of the next request.

        Args:
            session: the conversation.
            turn: the running turn, which stays in the context.
            spec: the model.
            tell: sends a line to the people of the conversation when turns of the demo are left out from now on.
        """
        is_demo = spec.partition(":")[0] == DEMO
        since = session.settings.demo
        if is_demo and since is None:
            first = _first_row(session, turn)
            is_whole = not session.window.summary and all(entry.row >= first for entry in session.window.entries)
            await self._note(session, DemoSince(first, is_whole))
        elif since is not None and not is_demo:
            if _shows(session, since, turn):
                # First, because a turn resumed after a crash finds nothing left to report; people are informed once.
                fresh = "starts with a fresh context" if since.is_whole else "continues where a real model stopped"
                hidden = "It does not see your messages with the demo; they stay in the transcript."
                await tell(f"{spec} answers now and {fresh}. {hidden}")
            await self._leave_out(session, turn, since)
            await self._note(session, None)

    async def _note(self, session: Session, since: DemoSince | None) -> None:
        await self.stored.set(session.key, DEMO_SINCE, asdict(since) if since else None)
        session.settings.demo = since

    async def _leave_out(self, session: Session, turn: str, since: DemoSince) -> None:
        if since.is_whole:
            await self.contexts.clear(session.key)
            return
        async with session.lock:
            window = session.window
            turns = (since.row, _first_row(session, turn) - 1)
            view = replace(window.view, left_out=(*window.view.left_out, turns))
            window.reduce(view)
            await self.stored.set(session.key, VIEW, asdict(view))


def _first_row(session: Session, turn: str) -> int:
    """Return the first row of the running turn."""
    return next((entry.row for entry in session.window.entries if entry.turn == turn), LAST_ROW)


def _shows(session: Session, since: DemoSince, turn: str) -> bool:
    """Whether the context has anything of the demo's turns; after a /clear it has not."""
    first, window = _first_row(session, turn), session.window
    stub = since.is_whole and bool(window.summary)
    return stub or any(since.row <= entry.row < first for entry in window.entries)
