"""Misspelt names in users.json and in the configuration are told, with the one that was meant."""

from goclaw.common.auth.config_lint import warnings
from goclaw.common.auth.users import User
from goclaw.common.config.hooks import HookSettings
from goclaw.common.config.load import Loaded
from goclaw.common.config.policies import RoleSettings
from goclaw.common.config.schema import Config
from goclaw.common.core.files import shown_path
from goclaw.program.cli.options import spelling

TOOLS = {"read": frozenset({"filesystem"}), "write": frozenset({"filesystem", "write"})}


def told(config: Config, *users: User) -> list[str]:
    return list(warnings(config, users, TOOLS, ["help", "status"]))


def test_unknown_tools_are_told_with_the_one_that_was_meant() -> None:
    listed = User("telegram:5", allowed_tools=frozenset({"raed", "zzzzz", "*", "read"}))
    star, meant, nothing = told(Config(), listed)
    assert "leave `allowedTools` out" in star
    assert "users.telegram:5.allowedTools: unknown tool `raed`; did you mean `read`?" in meant
    assert "known are: read, write" in nothing


def test_an_unknown_role_is_told_together_with_what_it_allows() -> None:
    config = Config(roles={"guest": RoleSettings()})
    (line,) = told(config, User("telegram:5", roles=frozenset({"Guest", "user", "admin"})))
    assert "users.telegram:5.roles: unknown role `Guest`; did you mean `guest`?; it allows nothing" in line
    assert told(config, User("telegram:5", roles=frozenset({"guest"}))) == []


def test_unknown_tools_and_commands_of_a_role_are_told() -> None:
    config = Config(roles={"guest": RoleSettings(tools=("raed",), commands=("halp", "status"))})
    assert told(config) == [
        "roles.guest.tools: unknown tool `raed`; did you mean `read`?",
        "roles.guest.commands: unknown command `halp`; did you mean `help`?",
    ]


def test_an_older_name_of_an_agents_tool_is_known_and_of_two_agents_not_clear() -> None:
    listed = ("a.tools.note", "a.tools.answer", "b.tools.answer", "b.tools.send_message")
    own = dict.fromkeys(listed, frozenset[str]())
    tools = {"tools": ("note", "a.tools.note", "answer", "b.tools.anser")}
    sets = {"a/tools": ("answer",), "b/tools": ("answer", "send_message")}
    kinds = {"a": {"description": "A.", "tools": ("set:a/tools", "answer")}}
    policy = {"auto_allow": ("send_message",)}
    config = Config.model_validate(
        {"agents": {"kinds": kinds}, "roles": {"guest": tools}, "policy": policy, "tools": {"sets": sets}}
    )
    assert list(warnings(config, (), {**TOOLS, **own}, ["help"])) == [
        "roles.guest.tools: `answer` is a tool of several agents; name one: a.tools.answer, b.tools.answer",
        "roles.guest.tools: unknown tool `b.tools.anser`; did you mean `b.tools.answer`?",
        "policy.auto_allow: `send_message` is a built-in tool that is off; name one: b.tools.send_message",
        "agents.kinds.a.tools: `answer` is a tool of several agents; name one: a.tools.answer, b.tools.answer",
    ]


def test_unknown_tools_of_a_hook_are_told() -> None:
    hook = HookSettings.model_validate({"on": "pre_tool", "match": "raed,read,tag:write,mcp__x__y", "command": "true"})
    assert told(Config(hooks=(hook,))) == ["hooks[0].match: unknown tool `raed`; did you mean `read`?"]


def test_unknown_names_tags_and_sets_are_told_wherever_tools_are_chosen() -> None:
    config = Config.model_validate(
        {
            "tools": {"disabled": ["tag:filesytem"], "sets": {"notes": ["read", "set:memroy"], "mine": ["-wirte"]}},
            "policy": {"auto_allow": ["raed"], "always_ask": ["-tag:wirte", "read"], "deny_ends_turn": ["set:note"]},
            "roles": {"guest": {"tools": ["set:notes", "-tag:filesystem"], "inputs": {"raed": {}}}},
            "agents": {"main": {"tools": ["-wirte"]}, "kinds": {"scout": {"tools": ["tag:filesytem"]}}},
            "pairing": {"allowed_tools": ["set:mime"]},
        }
    )
    assert told(config, User("telegram:5", allowed_tools=frozenset({"set:shel", "-read"}))) == [
        f"{shown_path(config.users_path)}: users.telegram:5.allowedTools: unknown set `shel`; did you mean `shell`?",
        "tools.disabled: unknown tag `filesytem`; did you mean `filesystem`?",
        "tools.sets.notes: unknown set `memroy`; did you mean `memory`?",
        "tools.sets.mine: unknown tool `wirte`; did you mean `write`?",
        "policy.auto_allow: unknown tool `raed`; did you mean `read`?",
        "policy.always_ask: unknown tag `wirte`; did you mean `write`?",
        "policy.deny_ends_turn: unknown set `note`; did you mean `notes`?",
        "pairing.allowed_tools: unknown set `mime`; did you mean `mine`?",
        "agents.main.tools: unknown tool `wirte`; did you mean `write`?",
        "agents.kinds.scout.tools: unknown tag `filesytem`; did you mean `filesystem`?",
        "roles.guest.inputs: unknown tool `raed`; did you mean `read`?",
    ]


def test_fixed_arguments_that_their_tool_refuses_are_told_and_what_is_left_to_the_model_is_not() -> None:
    config = Config.model_validate(
        {
            "roles": {
                "fine": {"inputs": {"exec": {"timeout": 10}, "Bash": {"command": "ls"}, "mcp__x__y": {"z": 1}}},
                "guest": {"inputs": {"exec": {"timeout": "ten"}, "Bash": {"timout": 10}}},
            }
        }
    )
    assert list(spelling(Loaded(config, None, (), ()), [])) == [
        'roles.guest.inputs.exec: field "timeout": expected integer, got string; every such call fails',
        'roles.guest.inputs.Bash: field "timout": unknown field, did you mean "timeout"?; every such call fails',
    ]


def test_roles_of_one_person_that_fix_an_argument_differently_are_told() -> None:
    slow, fast = RoleSettings(inputs={"read": {"limit": 1}}), RoleSettings(inputs={"read": {"limit": 2, "offset": 0}})
    config = Config(roles={"slow": slow, "fast": fast})
    (line,) = told(config, User("telegram:5", roles=frozenset({"slow", "fast"})))
    assert line.endswith("users.telegram:5.roles: fast and slow fix read.limit differently; the tool is refused")
    assert told(config, User("telegram:5", roles=frozenset({"slow"}))) == []


def test_unknown_agents_and_tools_of_exports_are_told_and_what_is_exported_is_known() -> None:
    planning = {"tags": ["plans"], "include": ["raed"], "tools": {"plan": {"description": "Plan."}}}
    through = {"description": "Log.", "passthrough": {"tool": "wirte"}}
    kinds = {"planner": {"exports": {"planning": planning, "logs": {"tools": {"log": through}}}}}
    routes = [{"agent": "planer", "command": "plan"}, {"agent": "planner"}, {"agent": "librarian"}]
    config = Config.model_validate(
        {
            "agents": {
                "main": {"tools": ["plan", "tag:plans", "set:planner/planning"]},
                "kinds": kinds,
                "routes": routes,
            },
            "roles": {"guest": {"agents": ["main", "ghost"], "commands": ["plan"]}},
        }
    )
    lines = list(warnings(config, [], TOOLS, ["help"], agents=["librarian"]))
    assert lines[:3] == [
        "agents.kinds.planner.exports.planning.include: unknown tool `raed`; did you mean `read`?",
        "agents.kinds.planner.exports.logs.tools.log.passthrough.tool: unknown tool `wirte`; did you mean `write`?",
        "agents.routes[0].agent: unknown agent `planer`; did you mean `planner`?",
    ]
    assert lines[3].startswith("roles.guest.agents: unknown agent `ghost`; known are: ") and len(lines) == 4


def test_what_mcp_servers_bring_is_known_before_they_are_there() -> None:
    tools = ("mcp__files__read", "tag:mcp-files", "tag:mcp-fils", "read_mcp_resource")
    role = RoleSettings(tools=tools, commands=("mcp__files__review",))
    servers = {"servers": {"files": {"command": "x", "roles": ["gest"]}}}
    config = Config.model_validate({"roles": {"guest": role}, "mcp": servers})
    assert told(config) == [
        "roles.guest.tools: unknown tag `mcp-fils`; did you mean `mcp-files`?",
        "mcp.servers.files.roles: unknown role `gest`; did you mean `guest`?; nobody has it",
    ]


def test_what_registries_bring_is_known_before_it_is_there() -> None:
    role = RoleSettings(tools=("mcp__data__read", "set:data", "tag:mcp-data", "tag:shared", "set:dada"))
    line = {"registry": "corp", "toolset": "x", "tags": ["shared"], "roles": ["gest"]}
    config = Config.model_validate({"roles": {"guest": role}, "tools": {"from_registry": {"data": line}}})
    assert told(config) == [
        "roles.guest.tools: unknown set `dada`; did you mean `data`?",
        "tools.from_registry.data.roles: unknown role `gest`; did you mean `guest`?; nobody has it",
    ]
