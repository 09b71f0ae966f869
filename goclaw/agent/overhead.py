"""The overhead of a request: system prompt and tools, put together and measured.

A turn, `/context`, the doctor, the setup and the daemon's start all measure with this, so that they agree.
"""

from collections.abc import Sequence

from goclaw.agent.kinds import AGENT_TOOL, Kinds
from goclaw.config.agents import AgentSettings
from goclaw.config.schema import CompactionSettings, Config
from goclaw.context.budget import ContextBudget
from goclaw.context.room import reserve
from goclaw.llm.estimate import estimate_text, estimate_tools
from goclaw.specs import ToolSpec
from goclaw.toolkit.offering import Offering, Offerings, profile_of
from goclaw.toolkit.teaming import TEAM_CREATE

STARTS_AGENTS = frozenset({AGENT_TOOL, TEAM_CREATE})


def starts_agents(tools: Sequence[ToolSpec]) -> bool:
    """Whether a model with these tools has to know which kinds of agents there are."""
    return any(spec.name in STARTS_AGENTS for spec in tools)


def system_prompt(base: str, settings: AgentSettings, offering: Offering, *about: str) -> str:
    """Return the whole system prompt of an agent.

    Args:
        base: the common prompt of the workspace's agents.
        settings: the agent's own.
        offering: the tools in its requests.
        about: texts on its task and on other agents; empty ones are left out.
    """
    return "\n\n".join(filter(None, (base, *about, settings.prompt.strip(), offering.index)))


def measured(
    spec: str, window: int, system: str, offering: Offering, compaction: CompactionSettings, scale: float = 1.0
) -> ContextBudget:
    """Estimate what a request holds of a model's window before anything is said.

    Args:
        spec: the model, `provider:name`.
        window: tokens of its window.
        system: the whole system prompt, its index included.
        offering: the tools that it is shown.
        compaction: says how much stays free for the answer.
        scale: by how much estimates are off for the model.
    """
    index = int(scale * estimate_text(offering.index))
    return ContextBudget(
        spec=spec,
        window=window,
        prompt=int(scale * estimate_text(system)) - index,
        index=index,
        indexed=offering.index.count("\n"),
        tools=int(scale * estimate_tools(offering.tools)),
        reserve=reserve(window, compaction),
        profile=offering.profile,
    )


def of_a_new_conversation(
    config: Config, spec: str, window: int, base: str, usable: Sequence[ToolSpec]
) -> ContextBudget:
    """Estimate the main agent's first request, where no daemon runs.

    Args:
        config: the configuration.
        spec: the model, `provider:name`.
        window: tokens of its window.
        base: the common prompt of the workspace's agents.
        usable: the tools that the agent may use.
    """
    settings = config.agents.main
    offering = Offerings().of(usable, usable, profile_of(config, settings, spec, window), settings.tools)
    kinds = Kinds(config).listed(lambda name: True) if starts_agents(usable) else ""
    return measured(spec, window, system_prompt(base, settings, offering, kinds), offering, config.compaction)
