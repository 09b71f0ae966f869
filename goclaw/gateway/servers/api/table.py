"""The table of all operations, and the OpenAPI 3.1 document that is made of it.

A module with further operations adds its `OPERATIONS` here. Source: OpenAPI Specification 3.1.1. Schemas are pydantic's
(JSON Schema 2020-12) of the types that requests are read with and answers are written with.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from aiohttp import web
from pydantic import TypeAdapter

from goclaw.common.config.listening import API as PREFIX
from goclaw.gateway.servers.api import (
    administration,
    devices,
    events,
    files,
    folders,
    memory,
    messages,
    schedules,
    sessions,
    status,
    turns,
    usage,
)
from goclaw.gateway.servers.api.operations import (
    BYTES,
    EVERYWHERE,
    JSON,
    WITH_BODY,
    Call,
    NoFields,
    Operation,
    Operations,
    Reply,
)
from goclaw.gateway.servers.api.problems import MEDIA_TYPE as PROBLEM
from goclaw.gateway.servers.api.problems import ProblemDetails
from goclaw.gateway.servers.http import HEADERS

VERSION = "1"
_REF = "#/components/schemas/{model}"
_BINARY = {"type": "string", "format": "binary"}
_TITLE = "GoClaw"
_ABOUT = (
    "The agent for programs and pages, with the rights of the token's user. Percent-encode session ids in paths. A "
    "body may contain only the listed fields."
)

OPERATIONS = Operations(
    [
        *sessions.OPERATIONS,
        *messages.OPERATIONS,
        *files.OPERATIONS,
        *folders.OPERATIONS,
        *events.OPERATIONS,
        *turns.OPERATIONS,
        *memory.OPERATIONS,
        *schedules.OPERATIONS,
        *usage.OPERATIONS,
        *status.OPERATIONS,
        *administration.OPERATIONS,
        *devices.OPERATIONS,
    ]
)


@OPERATIONS.add("GET", "/openapi.json", "about", Reply(body=dict[str, Any]))
async def get_open_api(call: Call, _: NoFields) -> web.Response:
    """Read the OpenAPI document"""
    return web.Response(body=await asyncio.to_thread(document), headers={**HEADERS, "Content-Type": JSON})


@cache
def document() -> bytes:
    """Return the OpenAPI document, as JSON. Takes long the first time: not in the event loop."""
    schemas, components = _schemas()
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        entry = _entry(operation, schemas, components)
        paths.setdefault(operation.path, {})[operation.method.lower()] = entry
    shown = {
        "openapi": "3.1.0",
        "info": {"title": _TITLE, "version": VERSION, "description": _ABOUT},
        "servers": [{"url": PREFIX.rstrip("/")}],
        "security": [{"token": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(each.tag for each in OPERATIONS)],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "`goclaw token add`"}},
            "schemas": components,
        },
    }
    return (json.dumps(shown, indent=2, ensure_ascii=False) + "\n").encode()


_Key = tuple[str, str]
"""The id of an operation, and whether it is about the request or the response."""


def _schemas() -> tuple[Mapping[_Key, Any], dict[str, Any]]:
    """Return the schemas of requests and responses, and the types that they refer to."""
    wanted: list[tuple[_Key, Any, Any]] = [
        (("", "problem"), "serialization", TypeAdapter(ProblemDetails)),
        *(((each.id, "request"), "validation", TypeAdapter(each.request)) for each in OPERATIONS),
        *(((each.id, "response"), "serialization", each.adapter) for each in OPERATIONS if each.response is not None),
    ]
    found, definitions = TypeAdapter.json_schemas(wanted, ref_template=_REF)
    return {key: schema for (key, _), schema in found.items()}, dict(definitions.get("$defs", {}))


def _entry(operation: Operation, schemas: Mapping[_Key, Any], components: dict[str, Any]) -> dict[str, Any]:
    fields: Mapping[str, Any] = schemas[operation.id, "request"]
    if "$ref" in fields:  # a request's own schema is no component: its fields stand in parameters and body
        fields = components[fields["$ref"].rpartition("/")[2]]
    properties: Mapping[str, Any] = fields.get("properties", {})
    required = fields.get("required", ())
    entry: dict[str, Any] = {"operationId": operation.id, "summary": operation.summary, "tags": [operation.tag]}
    said = (operation.description, "For admins only." if operation.admins_only else "")
    if description := " ".join(filter(None, said)):
        entry["description"] = description
    in_body = [name for name in properties if name not in operation.in_path] if operation.has_body else []
    parameters = [
        _parameter(name, schema, is_path=name in operation.in_path, is_required=name in required)
        for name, schema in properties.items()
        if name not in in_body
    ]
    parameters += [
        {"name": name, "in": "header", "required": False, "description": words, "schema": {"type": "string"}}
        for name, words in operation.request.headers.items()
    ]
    if parameters:
        entry["parameters"] = parameters
    if in_body:
        body = {
            "type": "object",
            "properties": {name: properties[name] for name in in_body},
            "required": [name for name in in_body if name in required],
            "additionalProperties": False,
            **({"anyOf": fields["anyOf"]} if "anyOf" in fields else {}),
        }
        entry["requestBody"] = {"required": True, "content": {JSON: {"schema": body}}}
    if operation.request.takes_bytes:
        entry["requestBody"] = {
            "required": True,
            # Makers of clients need a type by its name. Any other is taken as well: the content decides what a file is.
            "content": {BYTES: {"schema": _BINARY}, "*/*": {"schema": _BINARY}},
        }
    entry["responses"] = dict(_responses(operation, schemas))
    return entry


def _parameter(name: str, schema: Mapping[str, Any], *, is_path: bool, is_required: bool) -> dict[str, Any]:
    rest = {key: value for key, value in schema.items() if key not in ("description", "title")}
    described = {"description": schema["description"]} if "description" in schema else {}
    where = "path" if is_path else "query"
    return {"name": name, "in": where, "required": is_path or is_required, **described, "schema": rest}


def _responses(operation: Operation, schemas: Mapping[_Key, Any]) -> Iterable[tuple[str, Any]]:
    for code, words in operation.reply.statuses.items():
        schema = schemas.get((operation.id, "response"))
        content = {"content": {operation.reply.media_type: {"schema": schema}}} if schema is not None else {}
        yield str(code.value), {"description": words, **content}
    with_body = WITH_BODY if operation.has_body or operation.request.takes_bytes else ()
    refusals = {*EVERYWHERE, *operation.refusals, *with_body}
    problem = {PROBLEM: {"schema": schemas["", "problem"]}}
    for code in sorted(refusals):
        yield str(code.value), {"description": code.phrase, "content": problem}
