"""Who may do what. `authorize` is asked at every use; nothing that it answers is kept, and doubt means no.

The rules: a user listed in users.json without `allowedTools` may use every tool, one with the list only those, anyone
else none. The owner of the state folder is admin without being listed; a listed key follows its entry. Whoever acts
on behalf of others needs their rights, too. What the configuration disables is disabled for all.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, get_args

from goclaw.config.schema import Config
from goclaw.config.values import Answer, Mode, Row
from goclaw.events import Actor, Decision
from goclaw.specs import Risk
from goclaw.users import User, Users

ADMIN = "admin"
"""The role in users.json that may see and steer every session."""

Action = Literal[
    "tool.use",
    "session.read",
    "session.write",
    "session.own",
    "command.run",
    "command.admin",
    "message.other",
    "question.answer",
]
"""With the object of each: a tool's name; a session's key (three times); a command's name (twice); `channel:chat`; the
key of whoever the question is put to. `session.own`: do with a session what is for its own user alone, such as having
it forgotten; in a group that is nobody but an admin."""

_GROUP = re.compile(r"telegram:-[0-9]+(?::[0-9]+)?")
_STRICTNESS: tuple[Answer, ...] = ("run", "ask", "refuse")
_CONSENT: Mapping[Row, Mapping[Mode, Answer]] = {
    "low": {"default": "run", "accept-edits": "run", "plan": "run", "bypass": "run"},
    "medium": {"default": "run", "accept-edits": "run", "plan": "refuse", "bypass": "run"},
    "contained": {"default": "run", "accept-edits": "run", "plan": "refuse", "bypass": "run"},
    "high": {"default": "ask", "accept-edits": "ask", "plan": "refuse", "bypass": "run"},
    "critical": {"default": "ask", "accept-edits": "ask", "plan": "refuse", "bypass": "run"},
}
"""The table "What runs, what asks" of docs/configuration.md."""
_ROW: Mapping[Risk, Row] = {
    Risk.NONE: "low",
    Risk.LOW: "low",
    Risk.MEDIUM: "medium",
    Risk.CONTAINED: "contained",
    Risk.HIGH: "high",
    Risk.CRITICAL: "critical",
}


def consent(
    mode: Mode, risk: Risk, *, confirm: bool = False, stricter: Mapping[Row, Literal["ask", "refuse"]] | None = None
) -> Answer:
    """What becomes of an authorized tool call: it runs, a person is asked first, or it is refused.

    `mode` is the actor's (`Access.mode`), `risk` that of this very call, `confirm` a tool that wants to be asked for
    always, `stricter` the configuration's `policy.stricter`, which can only tighten the table.
    """
    row: Row = "critical" if confirm else _ROW[risk]
    answers: tuple[Answer, ...] = (_CONSENT[row][mode], (stricter or {}).get(row, "run"))
    return max(answers, key=_STRICTNESS.index)


def own_session(key: str) -> str:
    """The session that the user with this key has of their own, unless users.json names another."""
    return key


class Access:
    """The rules, over the live users file and the configuration."""

    def __init__(self, users: Users, config: Config) -> None:
        self._users = users
        self._config = config

    def authorize(self, actor: Actor, action: str, object: str) -> Decision:
        """May `actor`, and everyone on whose behalf it acts, do `action` to `object`? See `Action` for both."""
        if action not in get_args(Action) or not object:
            return Decision(False, f"no rule for {action or 'an action without a name'} on {object or 'nothing'}")
        decision = self._by_configuration(action, object)
        if decision is None:
            for each in _chain(actor):
                decision = self._by_person(each, action, object)
                if not decision.allowed:
                    break
        return decision or Decision(False, "nobody acts")

    def mode(self, actor: Actor) -> Mode:
        """The permission mode in force for the actor: `bypass` is for admins, where the configuration allows it."""
        policy = self._config.policy
        allowed = policy.allow_bypass and all(self.is_admin(each) for each in _chain(actor))
        return "default" if policy.mode == "bypass" and not allowed else policy.mode

    def is_admin(self, actor: Actor) -> bool:
        """Whether the actor itself is an admin: listed with that role, or the owner and not listed."""
        user = self._user(actor)
        return ADMIN in user.roles if user else actor.owner

    def is_group(self, session: str) -> bool:
        """Whether several people may speak in a session, so that what is said there is nobody's own."""
        return _GROUP.fullmatch(session) is not None

    def session_for(self, actor: Actor, default: str) -> str:
        """The session for a message that would go to `default`: the user's `session` in place of their own one."""
        user = self._user(actor)
        return user.session if user and user.session and default == own_session(actor.key) else default

    def _user(self, actor: Actor) -> User | None:
        return self._users.get(actor.key) if actor.key else None

    def _by_configuration(self, action: str, object_: str) -> Decision | None:
        if action == "tool.use" and object_ in self._config.tools.disabled:
            return Decision(False, "config tools.disabled")
        if action == "message.other" and self._config.policy.other_chats == "deny":
            return Decision(False, "config policy.other_chats")
        return None

    def _by_person(self, actor: Actor, action: str, object_: str) -> Decision:
        user = self._user(actor)
        if user is None:
            if actor.owner:
                return Decision(True, "owner of the state folder")
            return Decision(False, f"{actor.key} is not in users.json" if actor.key else "nobody: no key")
        return _RULES[action](user, actor, object_)


def _chain(actor: Actor) -> Iterator[Actor]:
    yield actor
    for other in actor.behalf:
        yield from _chain(other)


def _tool(user: User, _: Actor, name: str) -> Decision:
    if user.allowed_tools is None:
        return Decision(True, f"users.json {user.key}, all tools")
    return Decision(name in user.allowed_tools, f"users.json {user.key} allowedTools")


def _own(user: User, _: Actor, session: str) -> Decision:
    if ADMIN in user.roles:
        return Decision(True, f"users.json {user.key} role {ADMIN}")
    if session == user.session:
        return Decision(True, f"users.json {user.key} session")
    if session == own_session(user.key):
        return Decision(True, f"own session of {user.key}")
    return Decision(False, f"{session} is not a session of {user.key}")


def _session(user: User, actor: Actor, session: str) -> Decision:
    own = _own(user, actor, session)
    if own.allowed:
        return own
    if actor.entry == "telegram" and user.key.startswith("telegram:") and _GROUP.fullmatch(session):
        return Decision(True, f"users.json {user.key}, group of the channel")
    return own


def _listed(user: User, _: Actor, __: str) -> Decision:
    return Decision(True, f"users.json {user.key}")


def _admin(user: User, _: Actor, __: str) -> Decision:
    return Decision(ADMIN in user.roles, f"users.json {user.key} roles")


def _own_question(user: User, _: Actor, asked: str) -> Decision:
    if asked == user.key:
        return Decision(True, f"a question to {user.key}")
    return Decision(ADMIN in user.roles, f"users.json {user.key} roles")


_RULES: Mapping[str, Callable[[User, Actor, str], Decision]] = {
    "tool.use": _tool,
    "session.read": _session,
    "session.write": _session,
    "session.own": _own,
    "command.run": _listed,
    "command.admin": _admin,
    "message.other": _listed,
    "question.answer": _own_question,
}
