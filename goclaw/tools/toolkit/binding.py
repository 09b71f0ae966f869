"""Tools from existing methods of a service, with shapes of their own or forwarded as they are.

Both make the function that `@tool` declares, so that everything else of a tool is said in one place:

    find_issues = tool(side_effect=SideEffect.READ_ONLY, call_hint="Looking for {{ words }}")(
        bind(
            tracker.search,
            name="find_issues",
            takes=FindIssues,
            gives=Issues,
            to_call=lambda wanted: {"query": Query(text=wanted.words), "limit": 20},
            to_result=lambda page: Issues(returned=len(page.rows), total=page.count, titles=page.titles),
        )
    )

    log_message = tool(side_effect=SideEffect.MUTATING)(passthrough(log.append))

A method that is no coroutine runs in a thread. Its errors are bugs to the dispatcher, but for the ones that are listed
in `errors`: the model reads their text.
"""

import asyncio
import inspect
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, get_type_hints

from pydantic import BaseModel, ValidationError

from goclaw.errors import ToolError
from goclaw.tools.toolkit.base import ToolContext, ToolFunction
from goclaw.tools.toolkit.json_schema import Injected
from goclaw.tools.toolkit.results import WrongResult, in_words

ArgumentsT = TypeVar("ArgumentsT", bound=BaseModel)

Method = Callable[..., Any]
"""Of a service: a coroutine function or a plain one."""
Service = Callable[[ToolContext], Any]
"""Finds the object that a method is called on, for services that do not exist yet when the tool is declared."""
Errors = tuple[type[Exception], ...]
Injects = Mapping[str, Callable[[ToolContext], Any] | None]
"""By the name of an argument: what fills it in at each call; None: a hook."""
_NONE: Injects = MappingProxyType({})
_PLAIN = (str, int, float, bool)


def bind(
    method: Method,
    *,
    takes: type[ArgumentsT],
    gives: Any,
    to_call: Callable[[ArgumentsT], Mapping[str, Any]],
    to_result: Callable[[Any], Any],
    name: str = "",
    description: str = "",
    service: Service | None = None,
    errors: Errors = (),
) -> ToolFunction:
    """Make a tool function with other shapes of arguments and result than the method's (Goa-AI, BindTo).

    Args:
        method: a bound method; with `service`, a function of the class.
        takes: the model of the tool's arguments; what of them is `Injected` hooks fill in.
        gives: the type of the tool's result.
        to_call: from the arguments to the keyword arguments of the method.
        to_result: from the method's return value to the tool's result.
        name: the tool's; the method's unless given.
        description: the tool's description for the model; the method's docstring unless given.
    """
    run = _caller(method, service, errors)

    async def bound(ctx: ToolContext, arguments: ArgumentsT, /) -> Any:
        given = to_call(arguments)
        if fault := misfit(method, given, of_service=service is not None):
            raise ToolError(f"not run: to_call does not fit: {fault}")
        found = await run(ctx, (), given)
        try:
            return to_result(found)
        except ValidationError as error:
            raise WrongResult(in_words(error), found) from None

    bound.__annotations__ = {"ctx": ToolContext, "arguments": takes, "return": gives}
    return _rename(bound, name or method.__name__, description or inspect.getdoc(method))


def passthrough(
    method: Method,
    *,
    name: str = "",
    description: str = "",
    service: Service | None = None,
    errors: Errors = (),
    inject: Injects = _NONE,
) -> ToolFunction:
    """Make a tool function that forwards its arguments and returns the method's result (Goa-AI, Passthrough).

    Arguments, result, name and description are the method's; the parameters of `bind` that it shares mean the same.
    `inject` names arguments that no model sees.

    Raises:
        ValueError: the types of the method cannot be read, or it has no such argument.
    """
    run, fills = _caller(method, service, errors), {name: fill for name, fill in inject.items() if fill}

    async def forwarded(ctx: ToolContext, *given: Any, **named: Any) -> Any:
        return await run(ctx, given, {**named, **{name: fill(ctx) for name, fill in fills.items()}})

    try:
        hints = get_type_hints(method, include_extras=True)
    except NameError as error:
        raise ValueError(f"{name or method.__name__}: the type {error}: import it, or correct it") from error
    parameters = list(inspect.signature(method).parameters.values())[1 if service else 0 :]
    if unknown := sorted(inject.keys() - {each.name for each in parameters}):
        raise ValueError(f"{name or method.__name__}: inject names {', '.join(unknown)}, which is not an argument")
    parameters = [each for each in parameters if each.name not in fills]
    hints |= {each: Annotated[hints.get(each, Any), Injected()] for each in inject.keys() - fills.keys()}
    own = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_ONLY)
    # What `@tool` reads a function's arguments from.
    forwarded.__signature__ = inspect.Signature([own, *parameters])  # type: ignore[attr-defined]  # any function has it
    forwarded.__annotations__ = hints
    return _rename(forwarded, name or method.__name__, description or inspect.getdoc(method))


def misfit(method: Method, names: Collection[str], *, of_service: bool = False) -> str:
    """Return why `method` cannot be called with these keyword arguments, naming the field; empty if it can.

    Args:
        method: the method called; one written in C has no readable signature and always passes.
        names: the keyword arguments.
        of_service: whether its first parameter is the service object.
    """
    try:
        parameters = list(inspect.signature(method).parameters.values())[1 if of_service else 0 :]
    except (TypeError, ValueError):
        return ""
    called = getattr(method, "__name__", "the method")
    named = {each.name: each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters)
    for each in parameters:
        if each.kind is each.POSITIONAL_ONLY and each.default is each.empty:
            return f"{called} takes `{each.name}` by its position alone"
        if each.name in named and each.default is each.empty and each.name not in names:
            return f"{called} needs `{each.name}`, which is not an argument of the tool"
    if not takes_all and (unknown := [name for name in names if name not in named]):
        return f"{called} takes no `{unknown[0]}`, only: {', '.join(named) or 'nothing'}"
    return ""


def find_mismatch(method: Method, kinds: Mapping[str, Any]) -> str:
    """Return the first mismatch of plain types between arguments and method, in words; empty: none is known.

    Args:
        method: the callee; where it has no type hints, nothing is known.
        kinds: the types of the arguments by name.
    """
    try:
        hints = get_type_hints(method)
    except (NameError, TypeError):
        return ""
    for name, kind in kinds.items():
        wanted: Any = hints.get(name)
        both_plain = kind in _PLAIN and wanted in _PLAIN
        if both_plain and not issubclass(kind, wanted) and (kind, wanted) != (int, float):
            return f"`{name}` is of type {kind.__name__}, and {method.__name__} takes {wanted.__name__}"
    return ""


def _caller(method: Method, service: Service | None, errors: Errors) -> Callable[..., Any]:
    in_thread = not inspect.iscoroutinefunction(method)

    async def call(ctx: ToolContext, given: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        on = (service(ctx), *given) if service else given
        try:
            return await (asyncio.to_thread(method, *on, **named) if in_thread else method(*on, **named))
        except errors as error:
            raise ToolError(str(error)) from error

    return call


def _rename(function: ToolFunction, name: str, description: str | None) -> ToolFunction:
    function.__name__, function.__doc__ = name, description or ""
    return function
