"""Who may do what: every rule, and every cell of the table "What runs, what asks"."""

import json
from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from goclaw.common.auth.access import Access, Action
from goclaw.common.auth.users import User, Users
from goclaw.common.config.policies import PolicySettings, RoleSettings
from goclaw.common.config.schema import Config
from goclaw.common.config.tools import ToolsSettings
from goclaw.common.core.events import Actor
from tests.tables import table

ALL = User("telegram:1", roles=frozenset({"user"}))
SOME = User("telegram:2", roles=frozenset({"user"}), allowed_tools=frozenset({"read"}), session="shared")
NONE = User("telegram:3", allowed_tools=frozenset())
BOSS = User("telegram:4", roles=frozenset({"admin"}))
LISTED_OWNER = User("tui:listed", allowed_tools=frozenset({"read"}))


def actor(key: str, *, owner: bool = False, entry: str = "telegram", behalf: tuple[Actor, ...] = ()) -> Actor:
    return Actor(key, entry, owner=owner, behalf=behalf)


def access(config: Config | None = None) -> Access:
    return Access(Users([ALL, SOME, NONE, BOSS, LISTED_OWNER]), config or Config())


OWNER = actor("tui:me", owner=True, entry="socket")
STRANGER = actor("telegram:99")


@pytest.mark.promise("P-tools-per-user")
@pytest.mark.parametrize(
    ("who", "tool", "allowed", "rule"),
    [
        (actor("telegram:1"), "exec", True, "users.json telegram:1, all tools"),
        (actor("telegram:2"), "read", True, "users.json telegram:2 allowedTools"),
        (actor("telegram:2"), "exec", False, "users.json telegram:2 allowedTools"),
        (actor("telegram:2"), "Read", False, "users.json telegram:2 allowedTools"),
        (actor("telegram:2"), "", False, "no rule"),
        (actor("telegram:3"), "read", False, "users.json telegram:3 allowedTools"),
        (STRANGER, "read", False, "telegram:99 is not in users.json"),
        (actor("telegram:01"), "read", False, "not in users.json"),
        (actor(""), "read", False, "nobody"),
        (OWNER, "exec", True, "owner"),
        (actor("", owner=True, entry="cli"), "exec", True, "owner"),
        (actor("tui:listed", owner=True), "exec", False, "users.json tui:listed allowedTools"),
        (actor("tui:listed", owner=True), "read", True, "users.json tui:listed allowedTools"),
        (actor("telegram:1", behalf=(actor("telegram:2"),)), "exec", False, "users.json telegram:2"),
        (actor("telegram:1", behalf=(actor("telegram:2"),)), "read", True, "users.json telegram:2"),
        (actor("tui:me", owner=True, behalf=(STRANGER,)), "read", False, "telegram:99"),
        (actor("telegram:1", behalf=(actor("telegram:4", behalf=(STRANGER,)),)), "read", False, "telegram:99"),
        (actor("telegram:1"), "write", False, "config tools.disabled"),
        (OWNER, "write", False, "config tools.disabled"),
    ],
)
def test_a_tool_is_for_those_whose_entry_allows_it(who: Actor, tool: str, allowed: bool, rule: str) -> None:
    config = Config(tools=ToolsSettings(disabled=("write",)))
    decision = access(config).authorize(who, "tool.use", tool)
    assert decision.allowed is allowed
    assert rule in decision.rule


@pytest.mark.promise("P-sessions-are-private")
@table("action", ["session.read", "session.write"])
@table(
    "who, session, allowed",
    [
        (actor("telegram:1"), "telegram:1", True),
        (actor("telegram:1"), "telegram:2", False),
        (actor("telegram:1"), "tui:me", False),
        (actor("telegram:1"), "", False),
        (actor("telegram:2"), "shared", True),
        (actor("telegram:2"), "telegram:2", True),
        (actor("telegram:1"), "shared", False),
        (actor("telegram:1"), "telegram:-100", True),
        (actor("telegram:1"), "telegram:-100:7", True),
        (actor("telegram:1"), "telegram:-100:x", False),
        (actor("telegram:1"), "telegram:-100\n", False),
        (actor("telegram:1", entry="socket"), "telegram:-100", False),
        (actor("tui:listed", entry="telegram"), "telegram:-100", False),
        (STRANGER, "telegram:99", False),
        (STRANGER, "telegram:-100", False),
        (actor(""), "", False),
        (actor(""), "telegram:-100", False),
        (actor("telegram:4"), "telegram:1", True),
        (OWNER, "telegram:1", True),
        (actor("tui:listed", owner=True), "telegram:1", False),
        (actor("telegram:4", behalf=(actor("telegram:1"),)), "telegram:4", False),
    ],
)
def test_a_session_is_for_its_own_user_for_the_group_and_for_admins(
    action: str, who: Actor, session: str, allowed: bool
) -> None:
    assert access().authorize(who, action, session).allowed is allowed


@pytest.mark.promise("P-sessions-are-private")
@pytest.mark.parametrize(
    ("who", "session", "allowed"),
    [
        (actor("telegram:1"), "telegram:1", True),
        (actor("telegram:1"), "telegram:2", False),
        (actor("telegram:2"), "shared", True),
        (actor("telegram:1"), "telegram:-100", False),
        (actor("telegram:1"), "telegram:-100:7", False),
        (actor("telegram:4"), "telegram:-100", True),
        (OWNER, "telegram:-100", True),
        (STRANGER, "telegram:99", False),
        (actor("telegram:4", behalf=(actor("telegram:1"),)), "telegram:-100", False),
    ],
)
def test_a_group_is_nobodys_own_but_admins_may(who: Actor, session: str, allowed: bool) -> None:
    assert access().authorize(who, "session.own", session).allowed is allowed


@pytest.mark.parametrize(
    ("who", "action", "allowed"),
    [
        (actor("telegram:3"), "command.run", True),
        (STRANGER, "command.run", False),
        (OWNER, "command.run", True),
        (actor("telegram:1"), "command.admin", False),
        (actor("telegram:4"), "command.admin", True),
        (OWNER, "command.admin", True),
        (actor("tui:listed", owner=True), "command.admin", False),
        (actor("telegram:1"), "message.other", True),
        (STRANGER, "message.other", False),
        (OWNER, "made.up", False),
        (OWNER, "", False),
    ],
)
def test_commands_and_messages_are_for_listed_users_and_unknown_actions_for_nobody(
    who: Actor, action: str, allowed: bool
) -> None:
    assert access().authorize(who, action, "x").allowed is allowed


def test_the_configuration_can_forbid_messages_to_other_chats() -> None:
    config = Config(policy=PolicySettings(other_chats="deny"))
    assert not access(config).authorize(OWNER, "message.other", "telegram:5").allowed


@pytest.mark.parametrize("action", get_args(Action))
def test_every_action_refuses_strangers_and_names_a_rule(action: str) -> None:
    decision = access().authorize(STRANGER, action, "telegram:99")
    assert not decision.allowed
    assert decision.rule


async def test_rights_change_with_the_file_between_two_uses(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    path.write_text(json.dumps({"users": {"telegram:1": {}}}))
    users = Users.read(path)
    gate = Access(users, Config())
    assert gate.authorize(actor("telegram:1"), "tool.use", "exec").allowed
    path.write_text(json.dumps({"users": {"telegram:1": {"allowedTools": ["read"]}}}))
    await users.refresh()
    assert not gate.authorize(actor("telegram:1"), "tool.use", "exec").allowed


@pytest.mark.parametrize(
    ("who", "default", "session"),
    [
        (actor("telegram:1"), "telegram:1", "telegram:1"),
        (actor("telegram:2"), "telegram:2", "shared"),
        (actor("telegram:2"), "telegram:2:7", "shared"),  # a topic of the private chat
        (actor("telegram:1"), "telegram:1:7", "telegram:1:7"),
        (actor("telegram:2"), "telegram:-100", "telegram:-100"),
        (STRANGER, "telegram:99", "telegram:99"),
        (actor(""), "", ""),
    ],
)
def test_a_users_session_replaces_their_own_and_no_other(who: Actor, default: str, session: str) -> None:
    assert access().session_for(who, default) == session


@pytest.mark.parametrize(
    ("who", "allow", "mode"),
    [
        (OWNER, True, "bypass"),
        (actor("telegram:4"), True, "bypass"),
        (actor("telegram:1"), True, "default"),
        (actor("tui:listed", owner=True), True, "default"),
        (OWNER, False, "default"),
        (actor("telegram:4", behalf=(actor("telegram:1"),)), True, "default"),
    ],
)
def test_bypass_is_for_admins_where_the_configuration_allows_it(who: Actor, allow: bool, mode: str) -> None:
    config = Config(policy=PolicySettings(mode="bypass", allow_bypass=allow))
    assert access(config).mode(who) == mode


GUEST = RoleSettings(tools=("read", "exec"), commands=("help",), agents=("clerk",), approves="none", other_chats=False)
READER = RoleSettings(tools=(), commands=(), agents=(), sessions="read", approves="all", other_chats=False)
STEERER = RoleSettings(sessions="all")
ROLES = {"guest": GUEST, "reader": READER, "steerer": STEERER}
OBJECTS: dict[Action, tuple[str, ...]] = {
    "tool.use": ("read", "exec", "write"),
    "session.read": ("telegram:7", "telegram:1", "telegram:-100", "tui:me"),
    "session.write": ("telegram:7", "telegram:1", "telegram:-100", "tui:me"),
    "session.own": ("telegram:7", "telegram:1", "telegram:-100"),
    "session.alone": ("telegram:7", "telegram:5"),
    "command.run": ("help", "stop"),
    "command.admin": ("model",),
    "message.other": ("telegram:5",),
    "question.answer": ("telegram:7", "telegram:1"),
    "agent.use": ("main", "clerk"),
    "mcp.use": ("files",),
}
SEVEN = "telegram:7"
OWN = {(action, SEVEN) for action in ("session.read", "session.write", "session.own", "session.alone")}
GROUP = {("session.read", "telegram:-100"), ("session.write", "telegram:-100")}
PLAIN = {
    *OWN,
    *GROUP,
    *(("tool.use", name) for name in ("read", "exec", "write")),
    ("command.run", "help"),
    ("command.run", "stop"),
    ("message.other", "telegram:5"),
    ("question.answer", SEVEN),
    ("agent.use", "main"),
    ("agent.use", "clerk"),
    ("mcp.use", "files"),
}
EVERY_CELL: set[tuple[str, str]] = {(action, target) for action, targets in OBJECTS.items() for target in targets}
CLERK = ("agent.use", "clerk")
FILES = ("mcp.use", "files")
"""A server without `roles` is everybody's; others in test_access_mcp.py."""
HELP = ("command.run", "help")
READS = {(action, target) for action in ("session.read", "session.alone") for target in OBJECTS[action]}
DECLARED: dict[tuple[str, ...], set[tuple[str, str]]] = {
    (): PLAIN,
    ("user",): PLAIN,
    ("admin",): EVERY_CELL,
    ("guest",): {*OWN, *GROUP, ("tool.use", "read"), ("tool.use", "exec"), HELP, CLERK, FILES},
    ("reader",): {*OWN, *GROUP, *READS, FILES, ("question.answer", SEVEN), ("question.answer", "telegram:1")},
    ("steerer",): {*PLAIN, *READS, *(("session.write", target) for target in OBJECTS["session.write"])},
    ("guest", "reader"): {
        *OWN,
        *GROUP,
        *READS,
        ("tool.use", "read"),
        ("tool.use", "exec"),
        HELP,
        CLERK,
        FILES,
        ("question.answer", SEVEN),
        ("question.answer", "telegram:1"),
    },
    ("misspelt",): set(),
    ("misspelt", "guest"): {*OWN, *GROUP, ("tool.use", "read"), ("tool.use", "exec"), HELP, CLERK, FILES},
}
"""What each set of roles allows to `telegram:7`, cell by cell; everything else is refused."""
LISTS = (None, frozenset[str](), frozenset({"read"}), frozenset({"write"}), frozenset({"read", "exec", "write"}))


def declared(
    roles: tuple[str, ...], allowed: frozenset[str] | None, entry: str, action: str, target: str, disabled: set[str]
) -> bool:
    """The cell of the matrix, from the declarations above and the three rules that narrow them."""
    if action == "tool.use" and (target in disabled or (allowed is not None and target not in allowed)):
        return False
    by_channel = (action, target) in GROUP and entry != "telegram"
    everybodys = {"admin", "steerer"} | ({"reader"} if action == "session.read" else set())
    if by_channel and everybodys.isdisjoint(roles):
        return False
    return (action, target) in DECLARED[roles]


@pytest.mark.promise("P-tools-per-user")
@pytest.mark.promise("P-roles")
@table("entry", ["telegram", "socket", "http", "cli"])
@table("roles", DECLARED, ids=lambda roles: "+".join(roles) or "none")
def test_every_cell_of_the_matrix_is_as_declared(roles: tuple[str, ...], entry: str) -> None:
    """Role x allowedTools x disabled tools x action x object, from every entry point, alone and on behalf of others."""
    for allowed, disabled in product(LISTS, (set[str](), {"read"})):
        user = User(SEVEN, roles=frozenset(roles), allowed_tools=allowed)
        config = Config(roles=ROLES, tools=ToolsSettings(disabled=tuple(disabled)))
        gate = Access(Users([user, BOSS]), config)
        who = actor(SEVEN, entry=entry)
        for action, target in EVERY_CELL:
            expected = declared(roles, allowed, entry, action, target, disabled)
            cell = (allowed, disabled, action, target)
            assert gate.authorize(who, action, target).allowed is expected, cell
            # A powerful parent lends nothing, a powerful child gains nothing.
            child = actor(BOSS.key, entry=entry, behalf=(who,))
            assert gate.authorize(child, action, target).allowed is expected, cell
            for nobody in (actor("telegram:99", entry=entry), actor("", entry=entry)):
                assert not gate.authorize(nobody, action, target).allowed, cell


@pytest.mark.promise("P-sessions-are-private")
@pytest.mark.parametrize(
    ("who", "session", "alone"),
    [
        ("telegram:5", "telegram:5", True),
        ("telegram:5", "telegram:5/agent:0a1b2c3d4e5f", True),
        ("telegram:5", "family", False),
        ("telegram:6", "family", False),
        ("telegram:8", "garden", True),
        ("telegram:8", "telegram:6", False),  # an admin with somebody else
        ("telegram:8", "telegram:-100", False),
        ("tui:me", "tui:me", True),
        ("tui:me", "family", False),
        ("telegram:99", "telegram:99", False),
    ],
)
def test_a_session_is_only_ones_own_where_nobody_else_has_it_for_theirs(who: str, session: str, alone: bool) -> None:
    """Whether or not they have said anything in it yet."""
    users = [
        User("telegram:5", session="family"),
        User("telegram:6", session="family"),
        User("telegram:8", session="garden", roles=frozenset({"admin"})),
    ]
    asking = actor(who, owner=who == "tui:me")
    assert Access(Users(users), Config()).authorize(asking, "session.alone", session).allowed is alone


def test_the_matrix_has_every_action() -> None:
    assert set(OBJECTS) == set(get_args(Action))


def test_the_built_in_admin_cannot_be_redefined_but_what_everybody_may_can() -> None:
    with pytest.raises(ValueError, match="built in"):
        Config(roles={"admin": GUEST})
    gate = Access(Users([ALL]), Config(roles={"user": GUEST}))
    assert not gate.authorize(actor("telegram:1"), "tool.use", "write").allowed


@pytest.mark.parametrize(
    ("who", "role"),
    [(actor("telegram:1"), "user"), (actor("telegram:3"), "user"), (actor("telegram:4"), "admin"), (OWNER, "admin")],
)
def test_a_role_has_a_name_for_people(who: Actor, role: str) -> None:
    assert access().role(who) == role


def test_a_refusal_names_the_role(tmp_path: Path) -> None:
    gate = Access(Users([User(SEVEN, roles=frozenset({"guest"}))]), Config(roles=ROLES))
    assert gate.authorize(actor(SEVEN), "tool.use", "write").rule == "users.json telegram:7: roles.guest tools"


@table("depth", [1, 2])
@table("who", [actor(ALL.key), actor(SOME.key), actor(NONE.key), actor(BOSS.key), OWNER, STRANGER])
@table("home", [ALL.key, "shared", "telegram:-100", "tui:me"])
def test_the_conversation_of_an_agent_is_read_by_whoever_reads_its_session_and_written_by_nobody(
    who: Actor, home: str, depth: int
) -> None:
    theirs = home + "/agent:0a1b2c3d4e5f" * depth
    for action in ("session.read", "session.own"):
        assert access().authorize(who, action, theirs).allowed == access().authorize(who, action, home).allowed
    assert not access().authorize(who, "session.write", theirs).allowed
    assert access().is_group(theirs) == access().is_group(home)


def test_topics_of_a_private_chat_are_its_person_s_own() -> None:
    rules = access()
    for action in get_args(Action):
        if action.startswith("session."):
            assert rules.authorize(actor("telegram:1"), action, "telegram:1:7").allowed
            assert not rules.authorize(actor("telegram:3"), action, "telegram:1:7").allowed
    assert not rules.authorize(actor("telegram:1"), "session.write", "telegram:11:7").allowed
    assert not rules.authorize(actor("telegram:1"), "session.write", "telegram:1:7:8").allowed
    assert rules.session_for(actor("telegram:1"), "telegram:1:7") == "telegram:1:7"
    assert rules.session_for(actor("telegram:2"), "telegram:2:7") == "shared", "users.json names one"
