"""Authorization of actors. `authorize` is called at every use; its answers are not cached, and doubt means no.

Only the list of tools that a model is shown is kept, while `Access.basis` stays the same (`toolkit.registry`).

The rules: a user listed in users.json has the combined rights of the entry's roles (`roles` of the configuration;
without a word there, everything but an admin's rights; those of presets are known). `allowedTools` narrows the tools
further. Anyone else may do nothing. The owner of the state folder is admin without being listed; a listed key follows
its entry. An actor on behalf of others needs their rights, too. Whatever the configuration disables is disabled for
all. Tools are chosen by name, by tag and by set (`goclaw.common.core.selection`); an unknown tag or set allows
nothing.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from goclaw.common.auth.daily_budget import UNLIMITED, DailyBudget
from goclaw.common.auth.presets import GUESTS, preset_role
from goclaw.common.auth.users import User, Users
from goclaw.common.config.policies import ADMIN, USER, RoleSettings
from goclaw.common.config.schema import Config
from goclaw.common.config.values import Guard, Mode
from goclaw.common.core.catalog import ALIASES
from goclaw.common.core.events import AGENT_MARK, Actor, Decision, root_session
from goclaw.common.core.records import record
from goclaw.common.core.selection import Toolsets
from goclaw.common.core.tool_ids import short_name
from goclaw.common.specs import MCP, ToolSpec

Action = Literal[
    "tool.use",
    "session.read",
    "session.write",
    "session.own",
    "session.alone",
    "command.run",
    "command.admin",
    "message.other",
    "question.answer",
    "agent.use",
    "mcp.use",
]
"""With the object of each: a tool's id; a session's key (three times); a command's name (twice); `channel:chat`; the
key of the person who is asked; an agent's name; an MCP server's. `session.own`: do with a session what is for
its own user alone, such as having it forgotten; in a group that takes an admin. `session.alone`: bring into it
what is the actor's own: no other user has the session for theirs, and it is no group."""

_GROUP = re.compile(r"telegram:-[0-9]+(?::[0-9]+)?")
_TOPIC = re.compile(r"(telegram:[0-9]+):[0-9]+")
_EVERYTHING = RoleSettings.model_construct(sessions="all", approves="all")
_NOTHING_SAID = RoleSettings.model_construct()


@record
class ChosenMode:
    """The mode that was chosen for a session. It lapses when the configured mode has changed since."""

    mode: Mode
    under: Mode
    """`policy.mode` at that time."""


@record
class Person:
    """A listed person, with what their roles are now."""

    user: User
    roles: Mapping[str, RoleSettings]
    """The entry's roles that are defined; an undefined name allows nothing."""

    @property
    def is_admin(self) -> bool:
        return ADMIN in self.roles

    def granted_by(self, allows: Callable[[RoleSettings], bool]) -> str:
        """Return the first role that allows something; empty: none."""
        return next((name for name, role in self.roles.items() if allows(role)), "")

    def refusal(self, what: str) -> Decision:
        """Return the refusal where no role allows it."""
        names = ", ".join(sorted(self.user.roles)) or USER
        return Decision(False, f"users.json {self.user.key}: roles.{names} {what}")

    def decide(self, what: str, allows: Callable[[RoleSettings], bool]) -> Decision:
        """Return the decision about `what`, a key of the roles, by the first role that allows it."""
        role = self.granted_by(allows)
        return Decision(True, f"users.json {self.user.key}, role {role}") if role else self.refusal(what)


def is_group(session: str) -> bool:
    """Whether several people may speak in a session, so that it belongs to none of them alone."""
    return _GROUP.fullmatch(root_session(session)) is not None


def own_session(key: str) -> str:
    """Return the session that the user with this key has of their own, unless users.json names another."""
    return key


def without_topic(session: str) -> str:
    """Return the session of a private chat of Telegram's, for one of its topics; any other session is itself."""
    found = _TOPIC.fullmatch(session)
    return found[1] if found else session


class Access:
    """The rules, over the live users file and the configuration."""

    def __init__(self, users: Users, config: Config) -> None:
        self._users = users
        self.config = config
        self._spec: Callable[[str], ToolSpec | None] = lambda _: None  # before there is a registry
        self._find_id: Callable[[str], str] = lambda _: ""
        self.aliases: Mapping[str, str] = ALIASES if config.tools.aliases else {}
        """Other names of tools."""
        self.toolsets = Toolsets(config.toolsets, lambda name: self._find_id(name))
        roles, limits = config.roles.values(), config.limits
        self._has_asking_roles = any(role.always_ask for role in roles)
        self._has_daily_budgets = bool(limits.daily_tokens or limits.daily_cost) or any(
            role.daily_tokens or role.daily_cost for role in roles
        )

    @property
    def basis(self) -> tuple[object, ...]:
        """The further facts that a decision depends on: where these are the same objects, so are all decisions.

        Besides, the tags of a tool count (`learn`).
        """
        return self._users.in_force, self.config

    def learn(self, spec: Callable[[str], ToolSpec | None], find_id: Callable[[str], str]) -> None:
        """Set the functions that find a tool by id, and its id by name: the registry is made later."""
        self._spec, self._find_id = spec, find_id

    def authorize(self, actor: Actor, action: str, object: str, given: Mapping[str, Any] | None = None) -> Decision:
        """Decide whether `actor`, and everyone it acts for, may do `action` to `object`; see `Action`.

        `given` are the arguments of a tool call: values fixed for these people take their place in the decision.
        """
        if action not in get_args(Action) or not object:
            return Decision(False, f"no rule for {action or 'an action without a name'} on {object or 'nothing'}")
        decision = self._by_configuration(action, object)
        if action.startswith("session."):
            object = root_session(object)  # an agent's conversation belongs to the person it works for
            decision = decision or self._by_others(actor, action, object)
        if decision is None:
            for each in _chain(actor):
                decision = self._by_person(each, action, object)
                if not decision.allowed:
                    break
        decision = decision or Decision(False, "nobody acts")
        return self._about_call(actor, object, given, decision) if action == "tool.use" else decision

    def always_asks(self, actor: Actor, spec: ToolSpec) -> bool:
        """Whether every call of the tool is asked for, each by itself: by the policy or a role that applies."""
        if self._picks(self.config.policy.always_ask, spec, unknown=True):
            return True
        if not (self._has_asking_roles or self._users.roles & GUESTS.keys()):
            return False
        return any(self._picks(role.always_ask, spec, unknown=True) for _, role in self._roles_behind(actor))

    def guard(self, actor: Actor) -> Guard:
        """Return the setting of the guard for the actor: the strictest one of these people's roles."""
        said = [role.guard for _, role in self._roles_behind(actor) if role.guard]
        return next((each for each in ("deny", "ask", "off") if each in said), "ask")

    def mode(self, actor: Actor, chosen: ChosenMode | None = None) -> Mode:
        """Return the permission mode in force for the actor, in a session for which `chosen` was chosen.

        `bypass` is for admins, where the configuration allows it, no matter who chose it: looked up again at every use.
        """
        policy = self.config.policy
        mode = chosen.mode if chosen and chosen.under == policy.mode else policy.mode
        return "default" if mode == "bypass" and not self._may_bypass(actor) else mode

    def may_choose(self, actor: Actor, session: str, mode: Mode, *, approved: bool = False) -> Decision:
        """Decide whether the actor may choose a session's mode. `approved`: a person agreed to its plan."""
        writing = self.authorize(actor, "session.write", session)
        if not writing.allowed:
            return writing
        if mode == "bypass" and not self._may_bypass(actor):
            return Decision(False, "bypass is for admins, and needs policy.allow_bypass")
        admins = all(self.is_admin(each) for each in _chain(actor))
        if self.config.policy.mode == "plan" and mode != "plan" and not approved and not admins:
            return Decision(False, "policy.mode is plan: it is left when a plan was approved, or by an admin")
        return writing

    def spec(self, tool: str) -> ToolSpec | None:
        """Return the spec of the tool with this id; None for an unknown one."""
        return self._spec(tool)

    def names(self, tool: str) -> tuple[str, ...]:
        """Return the id of a tool and, where it stands for this one alone, its name without agent and set."""
        short = short_name(tool)
        return (tool,) if short == tool or self._find_id(short) != tool else (tool, short)

    def tags(self, tool: str) -> frozenset[str]:
        """Return the tags of a tool; empty for an unknown one."""
        spec = self._spec(tool)
        return spec.tags if spec else frozenset()

    def select(self, selections: Sequence[Sequence[str] | None], spec: ToolSpec) -> bool:
        """Whether each of the selections that allow tools (an agent's `tools`) has this one; None: every tool."""
        return all(selection is None or self._picks(selection, spec) for selection in selections)

    def _picks(self, selection: Sequence[str], spec: ToolSpec, *, unknown: bool = False) -> bool:
        return bool(selection) and self.toolsets.picks(selection, spec.id, lambda: spec.tags, unknown=unknown)

    def _has(self, selection: Sequence[str], tool: str, *, unknown: bool = False) -> bool:
        """Whether the actor has the tool with this id, which may be unknown. `unknown`: see `Toolsets.picks`."""
        return bool(selection) and self.toolsets.picks(
            selection, tool, lambda: spec.tags if (spec := self._spec(tool)) else None, unknown=unknown
        )

    def _may_bypass(self, actor: Actor) -> bool:
        return self.config.policy.allow_bypass and all(self.is_admin(each) for each in _chain(actor))

    def _about_call(self, actor: Actor, tool: str, given: Mapping[str, Any] | None, decision: Decision) -> Decision:
        """Return the decision with the fixed arguments of the call, and whether its denial ends the turn."""
        ends_turn = self._has(self.config.policy.deny_ends_turn, tool)
        fixed: dict[str, Any] = {}
        for name, role in self._roles_behind(actor) if decision.allowed else ():
            for argument, value in _fixed_by(role, tool):
                if fixed.setdefault(argument, value) != value:
                    rule = f"roles.{name}.inputs.{tool}.{argument}: another role of these people fixes it differently"
                    return Decision(False, rule, ends_turn=ends_turn)
        return replace(decision, input={**(given or {}), **fixed} if fixed else None, ends_turn=ends_turn)

    def _roles_behind(self, actor: Actor) -> Iterator[tuple[str, RoleSettings]]:
        """Yield all roles of all people for whom the actor acts."""
        for each in _chain(actor):
            if user := self._user(each):
                yield from self._roles(user).items()

    def is_admin(self, actor: Actor) -> bool:
        """Whether the actor itself is an admin: listed with that role, or the owner and not listed."""
        user = self._user(actor)
        return ADMIN in user.roles if user else actor.owner

    def is_owner(self, actor: Actor) -> bool:
        """Whether the actor has its rights as the owner: a listed key follows its entry."""
        return actor.owner and self._user(actor) is None

    def missing(self, actor: Actor, action: str, object: str) -> str:
        """Return the rule that denies something; empty: it is allowed."""
        decision = self.authorize(actor, action, object)
        return "" if decision.allowed else decision.rule

    def has_every_tool(self, user: User) -> bool:
        """Whether neither the entry nor the roles of a listed user limit the tools."""
        return user.allowed_tools is None and any(role.tools is None for role in self._roles(user).values())

    def daily_budget(self, key: str) -> DailyBudget:
        """Return the daily budget of the person with this key: as roles say, else as `limits` say for everyone."""
        if not (self._has_daily_budgets or self._users.roles & GUESTS.keys()):
            return UNLIMITED
        user = self._users.get(key)
        return DailyBudget.of(self._roles(user) if user else {}, self.config.limits)

    def role(self, actor: Actor) -> str:
        """Return the names of the actor's roles, for people."""
        user = self._user(actor)
        return ", ".join(sorted(user.roles)) or USER if user else ADMIN if actor.owner else "nobody"

    def is_group(self, session: str) -> bool:
        """Whether it is a group; see the function of this name."""
        return is_group(session)

    def session_for(self, actor: Actor, default: str) -> str:
        """Return the session for a message to `default`: the user's `session` in place of their own one."""
        user = self._user(actor)
        own = without_topic(default) == own_session(actor.key)
        return user.session if user and user.session and own else default

    def _user(self, actor: Actor) -> User | None:
        return self._users.get(actor.key) if actor.key else None

    def _by_configuration(self, action: str, object_: str) -> Decision | None:
        if action == "tool.use" and self._has(self.config.tools.disabled, object_, unknown=True):
            return Decision(False, "config tools.disabled")
        if action == "message.other" and self.config.policy.other_chats == "deny":
            return Decision(False, "config policy.other_chats")
        if action == "session.write" and AGENT_MARK in object_:
            return Decision(False, "the conversation of an agent that was started for a task is only read")
        return None

    def _by_others(self, actor: Actor, action: str, object_: str) -> Decision | None:
        """Refuse a session that must be only the actor's, if others take part in it, or may at any time."""
        if action != "session.alone":
            return None
        if is_group(object_):
            return Decision(False, f"{object_} is a group")
        here = {each.key for each in _chain(actor)}
        others = (user for user in self._users.all() if user.key not in here)
        home = without_topic(object_)
        other = next((user.key for user in others if object_ == user.session or home == own_session(user.key)), "")
        return Decision(False, f"{object_} is a session of {other}") if other else None

    def _by_person(self, actor: Actor, action: str, object_: str) -> Decision:
        user = self._user(actor)
        if user is None:
            if actor.owner:
                return Decision(True, "owner of the state folder")
            return Decision(False, f"{actor.key} is not in users.json" if actor.key else "nobody: no key")
        person = Person(user, self._roles(user))
        if hidden := self._hidden(person, action, object_):
            return hidden
        return self._tool(person, object_) if action == "tool.use" else _RULES[action](person, actor, object_)

    def _hidden(self, person: Person, action: str, object_: str) -> Decision | None:
        """Refuse an object of an MCP server that no role of the person sees."""
        if action != "mcp.use" and not (action in ("tool.use", "command.run") and object_.startswith(MCP)):
            return None
        for name, (place, server) in self.config.mcp_servers.items():
            prefixes = (f"{MCP}{name}__", f"{MCP}{name.replace('-', '_')}__")  # of tools, and of commands
            concerned = object_ == name if action == "mcp.use" else object_.startswith(prefixes)
            if concerned and server.roles and not (person.is_admin or person.roles.keys() & set(server.roles)):
                return Decision(False, f"users.json {person.user.key}: config {place}.roles")
        return None

    def _tool(self, person: Person, name: str) -> Decision:
        user = person.user
        if not person.granted_by(lambda role: role.tools is None or self._has(role.tools, name)):
            return person.refusal("tools")
        if user.allowed_tools is None:
            return Decision(True, f"users.json {user.key}, all tools")
        return Decision(self._has(tuple(user.allowed_tools), name), f"users.json {user.key} allowedTools")

    def _roles(self, user: User) -> Mapping[str, RoleSettings]:
        built_in = {ADMIN: _EVERYTHING, USER: _NOTHING_SAID}
        defined = {**built_in, **self.config.roles}
        found = {name: defined.get(name) or preset_role(name) for name in sorted(user.roles or {USER})}
        return {name: role for name, role in found.items() if role}


def _fixed_by(role: RoleSettings, tool: str) -> Iterator[tuple[str, Any]]:
    """Yield the arguments that a role fixes of a tool, under whichever of its names."""
    for name, fixed in role.inputs.items():
        if tool in (name, ALIASES.get(name)) or short_name(tool) == name:
            yield from fixed.items()


def _chain(actor: Actor) -> Iterator[Actor]:
    yield actor
    for other in actor.behalf:
        yield from _chain(other)


def _own(person: Person, session: str) -> Decision:
    user = person.user
    if person.is_admin:
        return Decision(True, f"users.json {user.key} role {ADMIN}")
    if person.roles and session == user.session:
        return Decision(True, f"users.json {user.key} session")
    if person.roles and without_topic(session) == own_session(user.key):
        return Decision(True, f"own session of {user.key}")
    return Decision(False, f"{session} is not a session of {user.key}")


def _session(person: Person, actor: Actor, session: str, *visible: str) -> Decision:
    own = _own(person, session)
    if own.allowed:
        return own
    if role := person.granted_by(lambda role: role.sessions in visible):
        return Decision(True, f"config roles.{role}.sessions")
    key = person.user.key
    in_channel = actor.entry == "telegram" and key.startswith("telegram:")
    if person.roles and person.user.groups and in_channel and _GROUP.fullmatch(session):
        return Decision(True, f"users.json {key}, group of the channel")
    return own


def _question(person: Person, asked: str) -> Decision:
    if role := person.granted_by(lambda role: role.approves == "all"):
        return Decision(True, f"users.json {person.user.key}, role {role}")
    if asked != person.user.key:
        return Decision(False, f"users.json {person.user.key} roles")
    if person.granted_by(lambda role: role.approves == "own"):
        return Decision(True, f"a question to {asked}")
    return person.refusal("approves")


_RULES: Mapping[str, Callable[[Person, Actor, str], Decision]] = {
    "session.read": lambda person, actor, session: _session(person, actor, session, "read", "all"),
    "session.write": lambda person, actor, session: _session(person, actor, session, "all"),
    "session.own": lambda person, _, session: _own(person, session),
    "session.alone": lambda person, actor, session: _session(person, actor, session, "read", "all"),
    "command.run": lambda person, _, name: person.decide(
        "commands", lambda role: role.commands is None or name in role.commands
    ),
    "command.admin": lambda person, _, __: Decision(person.is_admin, f"users.json {person.user.key} roles"),
    "message.other": lambda person, _, __: person.decide("other_chats", lambda role: role.other_chats),
    "question.answer": lambda person, _, asked: _question(person, asked),
    "agent.use": lambda person, _, name: person.decide(
        "agents", lambda role: role.agents is None or name in role.agents
    ),
    "mcp.use": lambda person, _, __: Decision(bool(person.roles), f"users.json {person.user.key} roles"),
}
