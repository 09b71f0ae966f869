"""Names in users.json, in `roles` and in `hooks` that nothing answers to, with what was probably meant.

They are no errors: a tool may come with a plugin that is not installed. What is misspelt allows nothing.
"""

from collections.abc import Collection, Iterator, Sequence

from goclaw.config.files import shown_path
from goclaw.config.keys import closest
from goclaw.config.policies import ADMIN, USER
from goclaw.config.schema import Config
from goclaw.users import User


def warnings(config: Config, users: Sequence[User], tools: Collection[str], commands: Collection[str]) -> Iterator[str]:
    """A line for each name that is none of `tools`, `commands` or the roles that are defined."""
    path, roles = shown_path(config.users_path), {ADMIN, USER, *config.roles}
    for user in users:
        for name in sorted(user.roles - roles):
            yield f"{path}: users.{user.key}.roles: unknown role `{name}`{_hint(name, roles)}; it allows nothing"
        for name in sorted((user.allowed_tools or frozenset()) - frozenset(tools)):
            hint = "; leave `allowedTools` out to allow every tool" if name == "*" else _hint(name, tools)
            yield f"{path}: users.{user.key}.allowedTools: unknown tool `{name}`{hint}"
    for role, settings in config.roles.items():
        for name in sorted(set(settings.tools or ()) - set(tools)):
            yield f"roles.{role}.tools: unknown tool `{name}`{_hint(name, tools)}"
        for name in sorted(set(settings.commands or ()) - set(commands)):
            yield f"roles.{role}.commands: unknown command `{name}`{_hint(name, commands)}"
    yield from _of_hooks(config, tools)


def _of_hooks(config: Config, tools: Collection[str]) -> Iterator[str]:
    for index, hook in enumerate(config.hooks):
        for name in sorted({name for name in hook.match if not name.startswith(("tag:", "mcp__"))} - set(tools)):
            yield f"hooks[{index}].match: unknown tool `{name}`{_hint(name, tools)}"


def _hint(name: str, known: Collection[str]) -> str:
    meant = closest(name, sorted(known))
    return f"; did you mean `{meant}`?" if meant else f"; known are: {', '.join(sorted(known))}"
