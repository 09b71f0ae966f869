"""The templates of webhooks: conditions, loops and a few filters over the JSON of a call, in Jinja's syntax.

A body is written by strangers, and a template may meet any of them. So the language is a small part of Jinja's: values
are only looked up by name or index (no attribute, no method, no call), nothing is assigned, added or multiplied, and
loops are counted and end in time. A template is bounded by its length (`config.webhooks.MAX_TEMPLATE`), so the work of
one expression is bounded by that and by the size of the body.

The output of an expression is foreign: it stands between marks, which no value can hold, until the text is complete.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jinja2 import TemplateError, Undefined, nodes, pass_context
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from goclaw.common.core.messages import Foreign, Provenance, SourceKind
from goclaw.common.core.redact import storable

MAX_TEXT = 20_000
"""Characters of a text; the rest is cut."""
MAX_STEPS = 10_000
"""Turns of all loops together."""
MAX_SECONDS = 1.0
CUT = f"… (cut at {MAX_TEXT:,} characters)"
_BEGIN, _END = "\x02", "\x03"
_PIECE = re.compile(f"{_BEGIN}([^{_END}]*){_END}?|([^{_BEGIN}{_END}]+)")
_NO_MARKS = {ord(_BEGIN): None, ord(_END): None}
_LOOP = frozenset({"index", "index0", "first", "last", "length"})
_NAMES = frozenset({"body", "headers", "loop"})
_COUNTED = "counted loop"
"""The filter around what a loop goes over, and the name of what it counts: no template can write it."""
_TESTS = ("boolean", "defined", "eq", "in", "mapping", "ne", "none", "number", "sequence", "string", "undefined")
_BUILT_IN_FILTERS = ("count", "default", "first", "last", "length")
_ALLOWED: tuple[type[nodes.Node], ...] = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Name, nodes.Const, nodes.List),
    *(nodes.Tuple, nodes.Getattr, nodes.Getitem, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not),
    *(nodes.CondExpr, nodes.Filter, nodes.Test, nodes.Keyword, nodes.Neg),
)


class TemplateFault(ValueError):
    """The template is not valid, or does not fit a body."""


class Template:
    """A template, checked and compiled."""

    def __init__(self, text: str, monotonic: Callable[[], float]) -> None:
        """Compile the text of a template; `monotonic` measures the time that a rendering takes.

        Raises:
            TemplateFault: it is not valid, with the line.
        """
        self._monotonic = monotonic
        environment = _environment()
        try:
            parsed = environment.parse(text)
            _restrict(parsed)
            parsed.set_environment(environment)
            self._template = environment.from_string(parsed)
        except TemplateError as error:
            raise TemplateFault(f"line {getattr(error, 'lineno', None) or 1}: {error.message}") from None

    def render(self, body: object, headers: Mapping[str, str], origin: str) -> tuple[str, tuple[Foreign, ...]]:
        """Return the text, and its parts that come from the call; empty: there is nothing to say.

        Blocks for `MAX_SECONDS` and the time of one expression at most.

        Args:
            body: JSON.
            headers: by names in lower case with `_` for `-`.
            origin: name of the source, for the model.

        Raises:
            TemplateFault: it does not fit this body.
        """
        budget = _Budget(self._monotonic)
        written, length = list[str](), 0
        try:
            for chunk in self._template.generate({"body": body, "headers": headers, _COUNTED: budget}):
                written.append(chunk)
                length += len(chunk)
                if length > 2 * MAX_TEXT:  # with the marks of empty values
                    break
        except TemplateError as error:
            raise TemplateFault(error.message or "it does not fit the body") from None
        except (TypeError, ArithmeticError, LookupError, AttributeError, RecursionError) as error:
            raise TemplateFault(f"it does not fit the body ({type(error).__name__})") from None
        return _put_together("".join(written), origin)


class _Missing(Undefined):
    """A value that the body has not: it is false and empty, and cannot be put out."""

    __slots__ = ()

    def __str__(self) -> str:
        return str(self._fail_with_undefined_error())


class _JsonOnly(ImmutableSandboxedEnvironment):
    """Looks values up in JSON by key or index, never as an attribute of a Python object."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, Undefined):
            return obj
        if isinstance(obj, LoopContext) and argument in _LOOP:
            return getattr(obj, argument)
        if isinstance(obj, Mapping) and isinstance(argument, str) and argument in obj:
            return obj[argument]
        is_index = isinstance(argument, int) and not isinstance(argument, bool)
        if isinstance(obj, list) and is_index and -len(obj) <= argument < len(obj):
            return obj[argument]
        return self.undefined(f"there is no `{str(argument)[:60]}` in this body")


class _Budget:
    """The rounds that the loops of one rendering have left."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._steps = MAX_STEPS
        self._end = monotonic() + MAX_SECONDS

    def count(self, values: Any) -> Iterator[Any]:
        if not isinstance(values, list | Mapping | Undefined):
            raise TemplateFault("a loop needs a list")
        for value in values:
            self._steps -= 1
            if self._steps < 0 or self._monotonic() > self._end:
                raise TemplateFault(f"its loops take more than {MAX_STEPS:,} steps or {MAX_SECONDS:.0f} s")
            yield value


@pass_context
def _count(context: Context, values: Any) -> Iterator[Any]:
    budget = context[_COUNTED]
    assert isinstance(budget, _Budget)  # noqa: S101 - put there by render
    return budget.count(values)


def _json(value: Any) -> str:
    return json.dumps(_there(value), ensure_ascii=False)[:MAX_TEXT]


def _join(values: Any, separator: str = "") -> str:
    if not isinstance(values, list | Undefined):
        raise TemplateFault("join needs a list")
    parts, length = list[str](), 0
    for value in values:
        parts.append(_render(value))
        length += len(parts[-1]) + len(separator)
        if length > MAX_TEXT:
            break
    return separator.join(parts)


def _truncate(value: Any, length: int = 200) -> str:
    text = _render(value)
    return text if len(text) <= length else f"{text[: max(0, length - 1)]}…"


_OWN_FILTERS: dict[str, Callable[..., Any]] = {
    "join": _join,
    "json": _json,
    "lower": lambda value: _render(value).lower(),
    "truncate": _truncate,
    "upper": lambda value: _render(value).upper(),
    _COUNTED: _count,
}


def _environment() -> _JsonOnly:
    environment = _JsonOnly(undefined=_Missing, autoescape=False, trim_blocks=True, lstrip_blocks=True, finalize=_mark)
    environment.globals.clear()
    environment.tests = {name: environment.tests[name] for name in _TESTS}
    environment.filters = {name: environment.filters[name] for name in _BUILT_IN_FILTERS} | _OWN_FILTERS
    return environment


def _restrict(parsed: nodes.Template) -> None:
    """Have every loop counted; raises TemplateFault for anything outside the language."""
    bound = {name.name for name in parsed.find_all(nodes.Name) if name.ctx == "store"} | _NAMES
    for node in list(parsed.find_all(nodes.Node)):
        if type(node) not in _ALLOWED:
            raise TemplateFault(
                f"line {node.lineno}: {type(node).__name__.lower()} is not supported in these templates"
            )
        if isinstance(node, nodes.Name) and node.name not in bound:
            raise TemplateFault(f"line {node.lineno}: unknown name `{node.name}`; there are `body` and `headers`")
        if isinstance(node, nodes.TemplateData) and node.data.translate(_NO_MARKS) != node.data:
            raise TemplateFault(f"line {node.lineno}: it contains a control character")
        if isinstance(node, nodes.List) and not all(isinstance(item, nodes.Const) for item in node.items):
            raise TemplateFault(f"line {node.lineno}: a list may contain only constants")
        if isinstance(node, nodes.For):
            if node.recursive:
                raise TemplateFault(f"line {node.lineno}: a loop cannot be recursive")
            node.iter = nodes.Filter(node.iter, _COUNTED, [], [], None, None, lineno=node.lineno)


def _there(value: Any) -> Any:
    """Return the value itself; raises UndefinedError for one that the body has not."""
    if isinstance(value, Undefined):
        str(value)
    return value


def _render(value: Any) -> str:
    """Return the value as it is put out."""
    match _there(value):
        case None:
            return ""
        case str(text):
            return text
        case bool() | dict() | list():
            return _json(value)
        case int() | float():
            return str(value)
        case _:
            raise TemplateFault("it outputs a value that is not part of the body")


def _mark(value: Any) -> str:
    return f"{_BEGIN}{storable(_render(value)[:MAX_TEXT]).translate(_NO_MARKS)}{_END}"


def _put_together(written: str, origin: str) -> tuple[str, tuple[Foreign, ...]]:
    """Return the written text without the marks, and where they were."""
    pieces = [(match[1], True) if match[2] is None else (match[2], False) for match in _PIECE.finditer(written)]
    text, foreign = "", list[Foreign]()
    for piece, is_foreign in _strip([(piece, is_foreign) for piece, is_foreign in pieces if piece]):
        kept = piece[: MAX_TEXT - len(text)]
        if is_foreign and kept:
            foreign.append(Foreign(len(text), len(text) + len(kept), origin, Provenance(SourceKind.WEB)))
        text += kept
        if len(kept) < len(piece):
            text += CUT
            break
    return (text, tuple(foreign)) if text.strip() else ("", ())


def _strip(pieces: Sequence[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Return the pieces without blank space of the template's at both ends."""
    kept = list(pieces)
    if kept and not kept[0][1]:
        kept[0] = kept[0][0].lstrip(), False
    if kept and not kept[-1][1]:
        kept[-1] = kept[-1][0].rstrip(), False
    return kept
