"""Misspelt names in users.json and roles are told, with the one that was meant."""

from goclaw.config.hooks import HookSettings
from goclaw.config.policies import RoleSettings
from goclaw.config.schema import Config
from goclaw.spelling import warnings
from goclaw.users import User


def told(config: Config, *users: User) -> list[str]:
    return list(warnings(config, users, ["read", "write"], ["help", "status"]))


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


def test_unknown_tools_of_a_hook_are_told() -> None:
    hook = HookSettings.model_validate({"on": "pre_tool", "match": "raed,read,tag:shell,mcp__x__y", "command": "true"})
    assert told(Config(hooks=(hook,))) == ["hooks[0].match: unknown tool `raed`; did you mean `read`?"]
