"""Agents for people at the command line."""

from goclaw.common.config.schema import Config
from goclaw.conversation.agent.kinds import Kinds, agent_as_json, agent_details, agent_line, all_agents

CONFIG = Config.model_validate(
    {
        "agents": {
            "kinds": {
                "planner": {
                    "description": "Plans.",
                    "prompt": "Think first.",
                    "model": "ollama:big",
                    "fallbacks": ["ollama:small"],
                    "tools": ["read"],
                    "policy": {"max_tool_calls": 3},
                    "exports": {
                        "planning": {
                            "description": "Plans for others.",
                            "tools": {
                                "create_plan": {"description": "Make a plan."},
                                "keep": {"description": "Keep it.", "passthrough": {"tool": "write"}},
                            },
                            "include": ["list"],
                            "publish_to": ["corp"],
                        }
                    },
                }
            },
            "routes": [{"agent": "planner", "command": "plan", "user": ["telegram:7"]}, {"agent": "planner"}],
        }
    }
)
PLANNER = """\
planner
Plans.

Models: ollama:big, then ollama:small
Tools: read
A turn: at most 3 tool calls, 5 failures in a row, 15m
Answers /plan for telegram:7
Answers everybody without another route

Exports planning: Plans for others.
- create_plan: Make a plan.
- keep: Keep it. (calls write)
- also list
- offered to corp

Instructions:

Think first."""


def test_everything_about_an_agent_is_shown() -> None:
    main, planner = all_agents(Kinds(CONFIG))
    routes = list(CONFIG.agents.routes)
    assert agent_details(planner, routes) == PLANNER
    assert (agent_line(main), agent_line(planner)) == ("main", "planner          Plans.")
    assert agent_as_json(planner, routes)["routes"][0] == {"user": ["telegram:7"], "chat": [], "command": "plan"}


def test_without_configuration_there_are_main_and_the_one_for_tasks() -> None:
    assert [kind.name for kind in all_agents(Kinds(Config()))] == ["main", "general"]
