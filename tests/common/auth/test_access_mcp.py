"""Who sees an MCP server: the roles that the configuration names, and admins; no word means everybody."""

import pytest

from goclaw.common.auth.access import Access
from goclaw.common.auth.users import User, Users
from goclaw.common.config.schema import Config
from goclaw.common.core.events import Actor

ADMIN, HELPER, GUEST = (Actor(f"telegram:{number}", "telegram") for number in (1, 2, 3))


@pytest.fixture
def access() -> Access:
    servers = {"my-files": {"command": "x", "roles": ["helper"]}, "open": {"command": "x"}}
    shared = {"their-data": {"registry": "corp", "toolset": "data", "roles": ["helper"]}}
    config = Config.model_validate(
        {"mcp": {"servers": servers}, "tools": {"from_registry": shared}, "roles": {"helper": {}}}
    )
    roles = {ADMIN.key: {"admin"}, HELPER.key: {"helper"}, GUEST.key: set[str]()}
    return Access(Users([User(key, roles=frozenset(names)) for key, names in roles.items()]), config)


@pytest.mark.parametrize(
    ("action", "hidden", "open_"),
    [
        ("tool.use", "mcp__my-files__read", "mcp__open__read"),
        ("command.run", "mcp__my_files__review", "mcp__open__review"),
        ("mcp.use", "my-files", "open"),
    ],
)
def test_tools_prompts_and_resources_are_for_the_same_people(
    access: Access, action: str, hidden: str, open_: str
) -> None:
    may = {actor: access.authorize(actor, action, hidden).allowed for actor in (ADMIN, HELPER, GUEST)}
    assert may == {ADMIN: True, HELPER: True, GUEST: False}
    assert all(access.authorize(actor, action, open_).allowed for actor in (ADMIN, HELPER, GUEST))
    assert access.authorize(GUEST, action, hidden).rule.endswith("config mcp.servers.my-files.roles")


def test_servers_of_registries_are_for_the_roles_that_their_line_names(access: Access) -> None:
    may = {actor: access.authorize(actor, "mcp.use", "their-data").allowed for actor in (ADMIN, HELPER, GUEST)}
    assert may == {ADMIN: True, HELPER: True, GUEST: False}
    decision = access.authorize(GUEST, "tool.use", "mcp__their-data__read")
    assert decision.rule.endswith("config tools.from_registry.their-data.roles")


def test_whoever_acts_for_somebody_else_needs_the_role_of_both(access: Access) -> None:
    both = Actor(HELPER.key, "telegram", behalf=(GUEST,))
    assert not access.authorize(both, "tool.use", "mcp__my-files__read").allowed
    assert not access.authorize(Actor("telegram:9", "telegram"), "mcp.use", "open").allowed
