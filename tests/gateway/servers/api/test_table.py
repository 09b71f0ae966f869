"""The OpenAPI document: of the same table as the routes, valid, served, and committed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # no stubs are installed

from goclaw.gateway.servers.api.table import OPERATIONS, document
from tests.gateway.servers.api.calling import service, world_with

COMMITTED = Path(__file__).parents[4] / "docs" / "openapi.json"

pytestmark = pytest.mark.promise("P-api")


def test_the_committed_document_is_that_of_the_table() -> None:
    assert COMMITTED.read_bytes() == document(), "python -m goclaw config openapi > docs/openapi.json"


async def test_it_is_served_to_callers_with_a_token(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        assert (await served.get("/openapi.json")).said == json.loads(document())
        assert (await served.send("GET", "/openapi.json", Authorization="")).status == 401


def test_every_operation_is_there_with_its_fields_and_answers() -> None:
    found = json.loads(document())
    for operation in OPERATIONS:
        entry = found["paths"][operation.path][operation.method.lower()]
        assert entry["operationId"] == operation.id and {"400", "401", "429"} <= set(entry["responses"])
        named = {each["name"] for each in entry.get("parameters", ())}
        assert set(operation.in_path) <= named
    ids = [each.id for each in OPERATIONS]
    assert len(set(ids)) == len(ids)


def test_its_schemas_are_valid_and_everything_that_is_referred_to_is_there() -> None:
    found = json.loads(document())
    for schema in schemas(found):
        Draft202012Validator.check_schema(schema)
    for name in re.findall(r'"#/components/schemas/([^"]+)"', document().decode()):
        assert name in found["components"]["schemas"]


@pytest.mark.parametrize(
    ("body", "is_valid"),
    [
        ({"id": "0"}, False),
        ({"id": "0", "text": " ", "files": []}, False),
        ({"id": "0", "text": "hi"}, True),
        ({"id": "0", "files": ["0" * 32]}, True),
    ],
)
async def test_a_message_without_content_is_refused_by_the_schema_and_the_server(
    tmp_path: Path, body: dict[str, Any], is_valid: bool
) -> None:
    path = "/sessions/{session}/messages"
    request = json.loads(document())["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert Draft202012Validator(request).is_valid(body) == is_valid
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        answered = await served.post(path.replace("{session}", "tui:ann"), body)
        assert (answered.status == 400 and "text" in answered.problem["detail"]) is not is_valid


def test_an_upload_has_a_named_type() -> None:
    uploads = json.loads(document())["paths"]["/sessions/{session}/files"]["post"]["requestBody"]["content"]
    assert "application/octet-stream" in uploads


def schemas(found: dict[str, Any]) -> list[Any]:
    """All schemas of the document."""
    inside = [*found["components"]["schemas"].values()]
    for path in found["paths"].values():
        for entry in path.values():
            inside += [each["schema"] for each in entry.get("parameters", ())]
            bodies = [entry.get("requestBody", {}), *entry["responses"].values()]
            inside += [media["schema"] for body in bodies for media in body.get("content", {}).values()]
    return inside
