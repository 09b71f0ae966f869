"""Reads the fields of a request from its path, its query or its body, and names errors."""

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web
from pydantic import ValidationError

from goclaw.common.core.redact import mask
from goclaw.gateway.servers.api.operations import JSON, Operation, Request
from goclaw.gateway.servers.api.problems import Problem, bad_request

LARGE_BODY = 64 << 10
"""Bytes from which on a body is read in a thread."""
MAX_DEPTH = 32
"""Levels of a body's arrays and objects."""
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,40}", re.ASCII)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})", re.ASCII)
_WORDS: Mapping[str, Any] = {"true": True, "false": False}


async def fields_of(operation: Operation, request: web.Request) -> Request:
    """Return the fields of a request.

    Raises:
        Problem: 400, 415.
    """
    if operation.request.takes_bytes:
        _refuse_encoded(request)
    given = {name: _value(request.match_info[name], operation, name) for name in operation.in_path}
    if request.query_string:
        given |= _query(operation, request)
    if not operation.has_body:
        return _validate(operation, given)
    _refuse_encoded(request)
    if request.content_type != JSON:
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send the body as {JSON}")
    raw = await request.read()
    if len(raw) > LARGE_BODY:
        return await asyncio.to_thread(_parse, operation, given, raw)
    return _parse(operation, given, raw)


def _query(operation: Operation, request: web.Request) -> dict[str, Any]:
    """Return the fields in a query. A key is shown as it came only if it is no secret."""
    known = () if operation.has_body else set(operation.request.model_fields) - set(operation.in_path)
    given: dict[str, Any] = {}
    for name, value in request.query.items():
        if name not in known:
            words = f"this query has no parameter `{_format_name(name)}`; put a token in the Authorization header"
            raise bad_request(words, "query")
        if name in given:
            raise bad_request(f"`{name}` should occur once", name)
        given[name] = _value(value, operation, name)
    return given


def _value(text: str, operation: Operation, name: str) -> Any:
    """Return a text of a path or query as the field's JSON value."""
    schema = operation.request.model_fields[name].annotation
    if schema in (str, str | None):
        return text
    return int(text) if _NUMBER.fullmatch(text) else _WORDS.get(text, text)


def _refuse_encoded(request: web.Request) -> None:
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send the body without a Content-Encoding")


def _parse(operation: Operation, given: dict[str, Any], raw: bytes) -> Request:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise bad_request("the body is not valid JSON, or nested too deeply") from None
    if _is_too_deep(body):
        raise bad_request(f"the body is deeper than {MAX_DEPTH} levels")
    if not isinstance(body, dict):
        raise bad_request("the body should be a JSON object")
    for name in operation.in_path:
        if name in body:
            raise bad_request(f"`{name}` belongs in the path", name)
    return _validate(operation, {**body, **given})


def _validate(operation: Operation, given: dict[str, Any]) -> Request:
    try:
        # As JSON: strictly a text is no number there, yet a list may be a tuple.
        return operation.request.model_validate_json(json.dumps(given), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = _format_name(".".join(str(each) for each in first["loc"]))
        if first["type"] == "extra_forbidden":
            raise bad_request(f"`{place}` is unknown here", place) from None
        raise bad_request(f"`{place}`: {first['msg']}" if place else first["msg"], place or None) from None


def _is_too_deep(data: Any) -> bool:
    level = [data]
    for _ in range(MAX_DEPTH):
        level = [each for item in level for each in _inside(item)]
        if not level:
            return False
    return True


def _inside(item: Any) -> Iterable[Any]:
    if isinstance(item, dict):
        return item.values()
    return item if isinstance(item, list) else ()


def _format_name(name: str) -> str:
    """Return a caller's field for an error: a long one may be a secret in the wrong place."""
    return mask(name) if _PLAIN.fullmatch(name) else "[an unknown name]"
