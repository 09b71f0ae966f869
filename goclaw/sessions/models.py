"""Which models answer. Found out in the background, so that looking for an Ollama server delays no start."""

import asyncio
import logging
from collections.abc import Callable

from goclaw.config.schema import Config
from goclaw.context.compaction import Source, Summarizer
from goclaw.errors import ConfigError
from goclaw.llm.base import ChatModel, ModelPorts
from goclaw.llm.open import DEMO, ollama_finder, open_chain, pick_default, pick_summary, prepare

log = logging.getLogger(__name__)


class Models:
    """The main model and those that summarise. They are there once `resolve` has found them."""

    def __init__(self, config: Config, ports: ModelPorts, notice: Callable[[str], None]) -> None:
        self._config = config
        self._ports = ports
        self._notice = notice
        self._agent: asyncio.Future[ChatModel] = asyncio.get_running_loop().create_future()
        self._summary: ChatModel | None = None
        self.sentence = "Model: still being looked for."
        """Which model answers, why, and how to change it: for people."""
        self.summary_specs: tuple[str, ...] = ()

    async def agent(self) -> ChatModel:
        """The main chain.

        Raises:
            ConfigError: a model of the configuration cannot be opened.
        """
        return await asyncio.shield(self._agent)

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

    async def summarizers(self) -> list[Summarizer]:
        """Who writes summaries, the first choice first."""
        main = await self.agent()
        sources = [Summarizer(Source.LLM, self._summary)] if self._summary else []
        # The demo model repeats what it is told: that is no summary.
        return [*sources, Summarizer(Source.FALLBACK, main)] if not self.is_demo else sources

    async def resolve(self) -> None:
        """Find and open the models; `agent` waits for this. Runs beside everything else, when the channels run."""
        find_ollama = ollama_finder(self._config, self._ports)
        try:
            specs, self.sentence = await pick_default(self._config, find_ollama)
            if DEMO not in specs:
                await prepare(specs, self._ports.clock.now())
            chain = open_chain(specs, self._config, self._ports, self._notice)
            self.summary_specs = await pick_summary(self._config, find_ollama)
            if self.summary_specs:
                self._summary = open_chain(self.summary_specs, self._config, self._ports, self._notice)
        except ConfigError as error:
            self.sentence = f"Model: none. {error}"
            self._agent.set_exception(error)
            self._agent.exception()  # retrieved: nobody may ever ask for it
        else:
            self._agent.set_result(chain)
        finally:
            if not self._agent.done():  # whoever waits for a model must not wait for ever
                self._agent.set_exception(ConfigError("no model could be opened; the log says why"))
                self._agent.exception()
        log.info("%s", self.sentence)
