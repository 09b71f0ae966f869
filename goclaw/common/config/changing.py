"""Changing one key of the configuration file, with its comments and everything else in it as it was.

The new file is loaded first, as the next start would: a file that could not be used, or with more than the one key
changed, is never put in place.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from goclaw.common.config.document import plain_value
from goclaw.common.config.load import load_config
from goclaw.common.config.schema import Config
from goclaw.common.core.files import only_writer, replace_file
from goclaw.errors import ConfigError, ToolError

CHANGEABLE = (
    "checkpoint.every_turns",
    "log_level",
    "media.text_characters",
    "memory.max_results",
    "queue.mode",
    "telegram.artifacts",
)
"""Keys that an agent may change where a person agrees: none of them gives it a right, reaches out, or costs money. The
operator may change any (`set_key`)."""

KEPT = ".old"
"""Ends the name of what the file was before the operator's last change."""
_BY_HAND = "set it by hand"


def change(file: Path, dotted: str, value: object) -> str:
    """Set a key in the file, which is made if it is not there; returns where it counts from the next start on. Blocks.

    Raises:
        ToolError: the key is not one of `CHANGEABLE`, the value does not fit, or the file cannot be changed by itself.
    """
    check_key(dotted, file.name)
    with _candidate(file, dotted, value) as (file, candidate):
        _put(candidate, file)
    return file.name


def set_key(file: Path, dotted: str, value: object, *, backup: bool = True) -> Path | None:
    """Set any key for the operator. Blocks.

    Args:
        file: the configuration file, which is made if it is missing.
        dotted: the key.
        value: as the configuration holds it: a tuple for a list, a mapping of the set keys for a section.
        backup: keep the file as it was; needless where the key is new, so that nothing goes.

    Returns:
        Where the old file is now; None: nothing was kept.

    Raises:
        ToolError: the value does not fit, or the file cannot be changed by itself.
    """
    with _candidate(file, dotted, value) as (file, candidate):
        kept = file.with_name(f"{file.name}{KEPT}") if backup and file.exists() else None
        if kept:
            replace_file(kept, _text(file))
            kept.chmod(file.stat().st_mode & 0o777)
        _put(candidate, file)
    return kept


def _put(candidate: Path, file: Path) -> None:
    """Let the candidate take the file's place and mode."""
    if file.exists():
        candidate.chmod(file.stat().st_mode & 0o777)
    candidate.replace(file)


def check_key(dotted: str, file: str) -> None:
    """Check that the key is one of `CHANGEABLE`; `file`: name of the file to edit for other keys.

    Raises:
        ToolError: it is not.
    """
    if dotted not in CHANGEABLE:
        raise ToolError(f"{dotted} cannot be changed here; an admin can change it in {file}")


def check(file: Path, dotted: str, value: object) -> None:
    """Check that `change` would succeed on the present file; raises the same errors. Blocks."""
    check_key(dotted, file.name)
    with _candidate(file, dotted, value):
        pass


@contextmanager
def _candidate(file: Path, dotted: str, value: object) -> Iterator[tuple[Path, Path]]:
    """Yield the file itself, and a copy with the key set that was checked to load."""
    file = file.resolve()
    candidate = file.with_name(f".{file.stem}-candidate.yaml")
    try:
        with only_writer(file.parent):
            try:
                before = _text(file) if file.exists() else ""
                _try(file, candidate, before, with_value(before, dotted, value), dotted, value)
                yield file, candidate
            finally:
                candidate.unlink(missing_ok=True)
    except ConfigError as error:
        raise ToolError(f"{file.name} was not changed: {str(error).replace(candidate.name, file.name)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"{file.name} was not changed: {getattr(error, 'strerror', None) or error}") from error


def _text(file: Path) -> str:
    # Not `read_text`, which makes LF of each CR LF.
    return file.read_bytes().decode()


def _try(file: Path, candidate: Path, before: str, after: str, dotted: str, value: object) -> None:
    replace_file(candidate, before)
    old = load_config(candidate).config
    replace_file(candidate, after)
    loaded = load_config(candidate)
    if _others(old, dotted) != _others(loaded.config, dotted):
        raise ToolError(f"{file.name} was not changed, because more than {dotted} would change; {_BY_HAND}")
    if plain_value(loaded.config, dotted) != value:
        origin = loaded.origin(tuple(dotted.split(".")))
        raise ToolError(
            f"{file.name} was not changed: {dotted} is also set elsewhere ({origin}), which takes precedence"
        )


def _others(config: Config, dotted: str) -> dict[str, Any]:
    """Return the whole configuration but for one key."""
    whole: dict[str, Any] = config.model_dump()
    inner = whole
    *above, name = dotted.split(".")
    for part in above:
        inner = inner[part]
    inner.pop(name, None)  # a name that is new, such as a role's, was not there before
    return whole


def with_value(text: str, dotted: str, value: object) -> str:
    """Return the text of a configuration with a key set; every other character stays.

    Raises:
        ToolError: the text is no mapping that can be added to.
    """
    path = dotted.split(".")
    try:
        # Not the loader of libyaml: its positions count differently.
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ToolError(f"the configuration file cannot be read: {str(error).splitlines()[0]}") from None
    if node is None:
        end = "\n" if text and not text.endswith("\n") else ""
        return f"{text}{end}{_format_keys(path, value, 0)}"
    indent = 0
    while isinstance(node, yaml.MappingNode):
        found = next(((key, inner) for key, inner in node.value if key.value == path[0]), None)
        if found is None and node.flow_style:
            return _add_inline(text, node, _inline(value, *path)[1:-1])
        if found is None:
            begin = text.rfind("\n", 0, node.start_mark.index) + 1
            return f"{text[:begin]}{_format_keys(path, value, node.start_mark.column)}{text[begin:]}"
        is_inline, (key, node) = node.flow_style, found
        indent, path = key.start_mark.column, path[1:]
        if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null":
            if node.value or is_inline:  # `null`, `~`, or nothing within braces
                return f"{text[: key.end_mark.index]}: {_inline(value, *path)}{text[node.end_mark.index :]}"
            added = f"\n{_format_keys(path, value, indent + 2)}".rstrip("\n") if path else f" {_inline(value)}"
            colon = text.index(":", key.end_mark.index) + 1
            return f"{text[:colon]}{added}{text[colon:]}"
        if not path:
            return _replace(text, node, value)
    raise ToolError(f"{dotted} cannot be set in the present layout of the configuration file; {_BY_HAND}")


def _inline(value: object, *path: str) -> str:
    """Return the value below the keys of `path`, as JSON on one line, which YAML's flow form is, too."""
    for name in reversed(path):
        value = {name: value}
    return json.dumps(value, ensure_ascii=False)


def _add_inline(text: str, node: yaml.MappingNode, added: str) -> str:
    """Add a key to a mapping in braces, before the others; on a line of its own where the first one has that."""
    if not node.value:
        inside = node.start_mark.index + 1
        return f"{text[:inside]}{added}{text[inside:]}"
    first = node.value[0][0].start_mark
    gap = f"\n{' ' * first.column}" if node.start_mark.line < first.line else " "
    return f"{text[: first.index]}{added},{gap}{text[first.index :]}"


def _replace(text: str, node: yaml.Node, value: object) -> str:
    """Replace the value of a node; of a list of the same length, only the items that differ."""
    written = _inline(value)
    if isinstance(node, yaml.SequenceNode) and isinstance(value, tuple | list):
        if len(node.value) == len(value) and all(isinstance(item, yaml.ScalarNode) for item in node.value):
            for item, each in reversed(list(zip(node.value, value, strict=True))):
                text = text if item.value == each else _replace(text, item, each)
            return text
        if not node.flow_style:
            # A block may begin in the column of its key, where no other form of a list can stand.
            lines = (f"- {_inline(each)}" for each in value)
            written = f"\n{' ' * node.start_mark.column}".join(lines)
    return f"{text[: node.start_mark.index]}{written}{text[_end(node) :]}"


def _end(node: yaml.Node) -> int:
    """Return the end of a node: PyYAML's own mark of a block includes the comments below it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)


def _format_keys(path: list[str], value: object, indent: int) -> str:
    """Format the keys of `path`, each below the one before it, with the value after the last or below it."""
    lines = [f"{' ' * (indent + 2 * depth)}{name}:" for depth, name in enumerate(path)]
    if not (isinstance(value, Mapping) and value):
        return "\n".join(lines) + f" {_inline(value)}\n"
    inner = (_format_keys([name], each, indent + 2 * len(path)) for name, each in value.items())
    return "\n".join(lines) + "\n" + "".join(inner)
