"""Texts of the configuration without secrets: the example file, the documentation page, the settings in force, one key.

`without_secrets` strips a configuration file: the rest may be kept where the secrets must not be.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Literal, get_args, get_origin

import orjson
import yaml
from pydantic import BaseModel, SecretStr

from goclaw.common.config.keys import (
    ANY_NAME,
    ITEM,
    Key,
    Loc,
    closest,
    entry_kind,
    form_of,
    is_list,
    is_mapping,
    is_model,
    is_secret,
    keys,
    kind_at,
)
from goclaw.common.config.schema import Config
from goclaw.common.config.sources import COMMON_VARIABLES, PREFIX
from goclaw.common.core.redact import mask
from goclaw.common.core.selection import BUILT_IN
from goclaw.errors import ToolError

HIDDEN = "********"
_NAMES = {
    "providers": "anthropic",
    "options": "ollama:qwen2.5:7b",
    "roles": "guest",
    "cli": "lint",
    "hosts": "web1",
    "kinds": "researcher",
    "exports": "planning",
    "tools": "create_plan",
    "prompts": "review",
    "servers": "files",
    "arguments": "file",
    "registries": "corp",
    "from_registry": "data",
    "publish": "docs",
    "pinned": "file_reading",
    "schedules": "standup",
    "webhooks": "github",
    "notify": "ops",
}
"""Stand in the example for names that the operator chooses."""
_HOME = "~/.goclaw"
_AFTER = {"section": "", "sections by name": f".{ANY_NAME}", "list of sections": ITEM}
_SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
_PLAIN = {"str": "text", "int": "whole number", "float": "number", "bool": "true or false", "Path": "path"}

_INTRODUCTION = f"""\
# Configuration

*Made from the schema by `goclaw config schema --markdown`; change the descriptions there.*

GoClaw runs without any configuration. Settings come from these places, each going before those above it:

1. the defaults below, and what installed packages declare ([declare.md](declare.md#what-the-operator-says)),
2. the file: `--config`, else `GOCLAW_CONFIG`, else `config.yaml` in the state folder (`goclaw config example` prints
   every key; relative folders in it count from the file),
3. secrets, one to a file: `secrets/` in the state folder, then `/run/secrets`. A file is named like its key with `__`
   for the dots (`telegram__proxy`), or `telegram_token`, `anthropic_api_key`, `openai_api_key`,
4. the environment: `{PREFIX}` and the key in capitals with `__` for the dots, `{PREFIX}HTTP__PORT=8000`; lists as JSON
   or with commas, mappings as JSON. An empty variable counts as not set. Also read, unless the full name is set, too:
   {", ".join(f"`{name}` (`{'.'.join(path)}`)" for name, path in COMMON_VARIABLES.items())},
5. the command line: `--set http.port=8000`.

A configuration that cannot be used is refused with exit code 78 and a line for each problem:
`config.yaml:5:3: telegram.tokne: unknown key; did you mean `token`?` `goclaw config check` also says what is weak and
what is shared with whom, `goclaw config show` prints what is in force and where it was set, `goclaw config schema`
prints a JSON Schema for editors.

## What runs, what asks

| row | examples | default | accept-edits | plan | bypass |
|---|---|---|---|---|---|
| low | read, search, memory, messages to the own chat | run | run | run | run |
| medium | write and edit files of the workspace | run | run | refuse | run |
| contained | `exec` in the sandbox without network | run | run | refuse | run |
| high | `exec` with network, messages to other chats, MCP tools without annotations | ask | ask | refuse | run |
| critical | `exec` without sandbox, tools that want to be confirmed, destructive MCP tools | ask | ask | refuse | run |

`policy.mode` chooses the column, `/mode` another one for a conversation. `bypass` is for admins, and needs
`policy.allow_bypass`. `policy.stricter` makes rows stricter and `policy.always_ask` single tools, in every mode;
`policy.auto_allow` lets tools run that would ask. [More](users-and-rights.md#what-asks-first)

## Choosing tools

Wherever tools are chosen (`roles.<name>.tools`, `allowedTools` in users.json, `tools.disabled`, `policy.…`,
`agents.….tools`) the words are the same: a name (`read`), everything with a tag (`tag:filesystem`), a set of
`tools.sets` or a built-in one (`set:shell`), and with `-` before it what is left out (`-exec`). Built in are
{", ".join(f"`{each.name}`" for each in BUILT_IN)}.
`goclaw config check` names what is misspelt; doubt allows nothing.
"""


def markdown() -> str:
    """Return the page docs/configuration.md."""
    lines = [_INTRODUCTION, *_table("Top level", [key for key in keys(Config) if len(key.path) == 1])]
    for section in (key for key in keys(Config) if key.is_section):
        title = f"`{section.dotted}{_AFTER[_form(section)]}`"
        depth = len(section.path) + (not is_model(section.kind))
        inside = [
            key for key in keys(Config) if len(key.path) == depth + 1 and key.path[: len(section.path)] == section.path
        ]
        lines += _table(title, inside, section.field.description or "")
    return "\n".join(lines).replace(f".{ANY_NAME}", ".<name>")


def example() -> str:
    """Return the file config.yaml.example: every key, its meaning and its default, each after a `#`."""
    lines = [
        "# GoClaw's configuration. Every key is optional; remove the `#` before those that you set.",
        "# The meaning of it all: docs/configuration.md. Check the file with `goclaw config check`.",
    ]
    opened: set[tuple[str, ...]] = set()
    for key in keys(Config):
        free = [number for number, part in enumerate(key.path) if part in (ANY_NAME, ITEM)]
        for number in free:
            above = key.path[:number]
            if above not in opened:
                opened.add(above)
                lines.append(f"{'  ' * number}#" + ("-" if key.path[number] == ITEM else f'"{_NAMES[above[-1]]}":'))
        indent = "  " * (len(key.path) - 1)
        if key.is_section and len(key.path) == 1:
            lines.append("")
        lines.append(f"{indent}# {key.field.description}")
        if key.is_section:
            # Below a name behind a `#` everything is.
            line = f"{'#' * bool(free)}{key.path[-1]}:"
        else:
            # Where one of several keys has to be set, its example takes the place of a default.
            example = _literal(key.field.examples[0]) if key.field.examples else ""
            line = f"#{key.path[-1]}: {_default(key) or example}"
        lines.append(indent + line.rstrip())
    return "\n".join(lines) + "\n"


def effective(config: Config, origin: Callable[[Loc], str]) -> str:
    """Return the configuration in force as YAML, secrets hidden, with where each value was set."""
    lines = ["# The configuration in force; behind each value is where it was set."]
    _append(lines, config, (), origin)
    return "\n".join(lines) + "\n"


def _append(lines: list[str], value: BaseModel | dict[str, object], loc: Loc, origin: Callable[[Loc], str]) -> None:
    indent = "  " * len(loc)
    for name, inner in value if isinstance(value, BaseModel) else value.items():
        shown = name if name.replace("_", "").isalnum() else json.dumps(name)
        here = (*loc, name)
        if isinstance(inner, BaseModel) or (isinstance(inner, dict) and inner):
            lines.append(f"{indent}{shown}:")
            _append(lines, inner, here, origin)
        else:
            lines.append(f"{indent}{shown}: {_literal(inner)}  # {origin(here)}")


def _literal(value: object) -> str:
    if isinstance(value, SecretStr):
        return json.dumps(HIDDEN)
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, BaseModel):
        return "{" + ", ".join(f"{name}: {_literal(inner)}" for name, inner in value) + "}"
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return json.dumps(
        value if isinstance(value, (bool, int, float, type(None))) else mask(str(value)), ensure_ascii=False
    )


def _default(key: Key) -> str:
    if key.path == ("state_dir",):
        return _HOME
    if key.field.is_required():
        return _literal((key.field.examples or [""])[0])
    default = key.field.get_default(call_default_factory=True)
    return _literal(default) if default is not None else ""


def _table(title: str, inside: list[Key], description: str = "") -> list[str]:
    lines = [f"## {title}", "", *([description, ""] if description else [])]
    lines += ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key in inside:
        meaning = (key.field.description or "").replace("|", "\\|")
        lines.append(f"| `{key.dotted}` | {_kind(key)} | {_default_cell(key)} | {meaning} |")
    return [*lines, ""]


def _default_cell(key: Key) -> str:
    if key.field.is_required():
        return "required"
    default = "" if key.is_section else _default(key)
    return f"`{default}`" if default else ""


def _kind(key: Key) -> str:
    if key.is_section:
        return _form(key)
    limits = [
        f"{sign} {getattr(item, name):g}"
        for item in key.field.metadata
        for name, sign in _SIGNS.items()
        if hasattr(item, name)
    ]
    return ", ".join([_words(key.kind), *limits])


def _form(section: Key) -> str:
    if is_model(section.kind):
        return "section"
    return "sections by name" if is_model(entry_kind(section.kind)) else "list of sections"


def _words(kind: object) -> str:
    if is_secret(kind):
        return "secret"
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(f"`{choice}`" for choice in get_args(kind))
    if is_list(kind) and is_mapping(form_of(kind, dict)):
        return "list or mapping"
    if is_list(kind):
        return "list" if get_origin(kind) is tuple else "list or `auto`"
    return "mapping" if is_mapping(kind) else _PLAIN.get(getattr(kind, "__name__", ""), "any")


_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH)$", re.IGNORECASE)
_FOREIGN = ("channels",)
"""Sections with keys of packages: which of them are secrets is not known here."""


def format_value(config: Config, dotted: str) -> str:
    """Return `key: value`, of a section a line for each key in it.

    Raises:
        ToolError: there is no such key.
    """
    value: object = config
    path: list[str] = []
    for name in dotted.split("."):
        names = type(value).model_fields if isinstance(value, BaseModel) else value if isinstance(value, dict) else ()
        if name not in names:
            meant = closest(name, sorted(names))
            inside = f" in {'.'.join(path)}" if path else ""
            hint = f"; did you mean {meant}?" if meant else f"; there are: {', '.join(sorted(names)) or 'none'}"
            raise ToolError(f"no key {name[:100]!r}{inside}{hint}")
        path.append(name)
        value = _inside(value, name)
    return "\n".join(_key_lines(value, tuple(path)))


def all_shown(config: Config) -> list[str]:
    """Return `key: value` of every key, as `shown` does."""
    return [line for name, value in config for line in _key_lines(value, (name,))]


def plain_value(config: Config, dotted: str) -> object:
    """Return the value of a single, non-secret key, a section as the mapping that it was set by; see `changing`."""
    value: object = config
    for name in dotted.split("."):
        value = _inside(value, name)
    return value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else value


def _inside(value: object, name: str) -> object:
    return value[name] if isinstance(value, dict) else getattr(value, name)


def _key_lines(value: object, path: tuple[str, ...]) -> Iterator[str]:
    if path[0] in _FOREIGN and (value or len(path) > 1):
        yield f"{'.'.join(path)}: {HIDDEN}"
    elif isinstance(value, BaseModel) or (isinstance(value, dict) and value):
        for name, inner in value if isinstance(value, BaseModel) else value.items():
            yield from _key_lines(inner, (*path, str(name)))
    else:
        hidden = _SECRET_NAME.search(path[-1]) and isinstance(value, str | SecretStr)
        yield f"{'.'.join(path)}: {HIDDEN if hidden else mask(orjson.dumps(value, default=_as_json).decode())}"


def _as_json(value: object) -> object:
    """Convert a value that JSON has no type for."""
    if isinstance(value, SecretStr):
        return HIDDEN
    if isinstance(value, BaseModel):
        return {
            name: HIDDEN if _SECRET_NAME.search(name) and isinstance(inner, str) else inner for name, inner in value
        }
    return str(value)


_NOTHING = "tag:yaml.org,2002:null"


def without_secrets(text: str) -> tuple[str, list[str]]:
    """Replace every secret of a valid configuration by `null`; return the text and the keys of the secrets.

    A secret is the value of a secret key, and whatever `redact.mask` would hide: known secrets in other places, tokens,
    passwords in URLs; those in comments are masked. Everything else stays as it was written.
    """
    # Not the loader of libyaml: its positions count differently.
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    found = sorted(_secrets(node, ()), key=lambda secret: secret[1].start_mark.index, reverse=True)
    for _, scalar in found:
        start, end = scalar.start_mark.index, scalar.end_mark.index
        # A block (`key: |`) ends behind its last line.
        text = f"{text[:start]}null{chr(10) if text[start:end].endswith(chr(10)) else ''}{text[end:]}"
    return mask(text), [".".join(map(str, loc)) for loc, _ in reversed(found)]


def _secrets(node: yaml.Node | None, loc: Loc) -> Iterator[tuple[Loc, yaml.ScalarNode]]:
    match node:
        case yaml.MappingNode():
            for key, value in node.value:
                yield from _secrets(value, (*loc, key.value))
        case yaml.SequenceNode():
            for index, value in enumerate(node.value):
                yield from _secrets(value, (*loc, index))
        case yaml.ScalarNode() if node.tag != _NOTHING:
            if is_secret(kind_at(Config, loc)) or mask(node.value) != node.value:
                yield loc, node
