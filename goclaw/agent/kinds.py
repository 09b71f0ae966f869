"""The configured agents: those of `agents.kinds`, or a built-in one where there are none; and `main`."""

from collections.abc import Callable, Mapping
from dataclasses import field

from goclaw.agent.rules import MAIN as MAIN_POLICY
from goclaw.agent.rules import TurnRules, rules_of
from goclaw.config.agents import MAIN, AgentSettings
from goclaw.config.schema import Config
from goclaw.errors import ToolError
from goclaw.records import record

GENERAL = "general"
"""The built-in kind, and the default where several are configured and the call names none."""
AGENT_TOOL = "agent"
"""The tool that starts agents."""

ABOUT = """You are an agent that another agent has started for one task; no person reads what you write. The message
that you are given is the whole task: you know nothing of the conversation that it comes from, and nobody answers
questions unless you have a tool to ask with. Do the task with your tools, and end with an answer that stands for
itself: what you found or did, where (paths, lines), and what is left open or failed. The one that reads it sees nothing
else of your work."""
"""The prompt of a subagent beyond that of every agent."""


@record
class Kind:
    """An agent that can be started."""

    name: str
    settings: AgentSettings
    rules: TurnRules


@record
class Kinds:
    """All of them."""

    config: Config
    _known: Mapping[str, AgentSettings] = field(init=False)

    def __post_init__(self) -> None:
        built_in = {GENERAL: AgentSettings(description="Does any task that can be described in a message.")}
        object.__setattr__(self, "_known", dict(self.config.agents.kinds) or built_in)

    def named(self, name: str) -> Kind:
        """Return the kind with this name; empty: the only one, or `general`.

        Raises:
            ToolError: it is unknown; the message names the known ones.
        """
        known = self._known
        wanted = name or (next(iter(known)) if len(known) == 1 else GENERAL)
        if wanted not in known:
            what = f"no kind of agent is called {wanted[:80]!r}" if name else "say which kind of agent"
            raise ToolError(f"{what}: there are {', '.join(sorted(known))}")
        settings = known[wanted]
        place = f"agents.kinds.{wanted}.policy"
        return Kind(wanted, settings, rules_of(self.config.limits, settings.policy, place))

    def of(self, name: str) -> Kind | None:
        """Return the agent of exactly that name, `main` included."""
        if name == MAIN:
            main = self.config.agents.main
            return Kind(MAIN, main, rules_of(self.config.limits, main.policy, MAIN_POLICY))
        return self.named(name) if name in self._known else None

    @property
    def answering(self) -> list[str]:
        """The names of those that can answer people."""
        return [MAIN, *self.config.agents.kinds]

    def recursive(self, agents: "set[str]") -> list[str]:
        """Return the tools by which one of these agents would be asked to work for itself."""
        exports = self.config.agents.exports
        return [
            tool
            for agent in sorted(agents & exports.keys())
            for export in exports[agent].values()
            for tool, settings in export.tools.items()
            if settings.passthrough is None
        ]

    def listed(self, may: Callable[[str], bool]) -> str:
        """Return the list of kinds for the model; empty where there is no choice. `may`: whether one may be started."""
        known = {name: kind for name, kind in self._known.items() if may(name)}
        if not self.config.agents.kinds or not known:
            return ""
        lines = [f"- {name}: {' '.join(kind.description.split())}".rstrip(": ") for name, kind in known.items()]
        return "\n".join([f"Kinds of agents that the tool `{AGENT_TOOL}` starts:", *lines])
