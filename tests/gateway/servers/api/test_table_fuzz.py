"""Requests that the document allows, and that it does not, made by schemathesis: the answers are those it promises.

All operations of the table but streams, on a real listener, with one seed; `deep` tries many more.
"""

import asyncio
import json
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import ignored_auth

from goclaw.common.auth.users import User
from goclaw.gateway.servers.api.operations import JSON
from goclaw.gateway.servers.api.table import OPERATIONS, document
from tests.gateway.servers.api.calling import PREFIX, moving, service, world_with
from tests.harness import Answer
from tests.lanes import repeats

ADMIN = User("memory:here", "Ann", roles=frozenset({"admin"}))
SEED = 23
KNOWN = {"session": ADMIN.key}
"""Values for paths: anything else is not found."""
OPAQUE = {"cursor"}
"""Fields of queries whose values are the daemon's own."""
OTHERS = [ignored_auth]
"""Checks of another kind: too many wrong tokens are told to wait (see `test_routes`)."""

pytestmark = pytest.mark.promise("P-api")


def attack(url: str, token: str, operation_id: str, mode: GenerationMode, examples: int) -> None:
    """Send requests for one operation; raises for an answer that the document does not promise."""
    schema = schemathesis.openapi.from_dict(json.loads(document()))
    (operation,) = (
        each.ok()
        for each in schema.get_all_operations()
        if isinstance(each, Ok) and each.ok().definition.raw["operationId"] == operation_id
    )

    @seed(SEED)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        if mode is GenerationMode.POSITIVE:
            case.path_parameters |= {name: value for name, value in KNOWN.items() if name in case.path_parameters}
            case.query = {name: value for name, value in case.query.items() if name not in OPAQUE}
        try:
            response = case.call(base_url=f"{url}{PREFIX}", headers={"Authorization": f"Bearer {token}"})
        except requests.ConnectionError:
            if mode is GenerationMode.POSITIVE:
                raise
            return  # closed before a head that is too long was read: the refusal may be lost with it
        sent = parse_qs(urlsplit(response.request.url or "").query, keep_blank_values=True)
        if mode is GenerationMode.NEGATIVE and set(case.query or ()) - set(sent):
            return  # a field whose value is an empty list is not sent at all: what is left may be allowed
        is_unread = response.status_code == HTTPStatus.BAD_REQUEST and "Content-Type" not in response.headers
        if not is_unread and response.status_code != HTTPStatus.REQUEST_ENTITY_TOO_LARGE:  # a head or a body too long
            case.validate_response(response, excluded_checks=OTHERS)

    send()


@pytest.mark.deep
@pytest.mark.parametrize(
    "mode",
    # What the document allows is asked in every commit by the tests of each route, too.
    [pytest.param(mode, id=mode.name.lower(), marks=[pytest.mark.long] * mode.is_positive) for mode in GenerationMode],
)
@pytest.mark.parametrize("operation_id", [each.id for each in OPERATIONS if each.reply.media_type == JSON])
async def test_every_request_has_an_answer_that_the_document_promises(
    tmp_path: Path, operation_id: str, mode: GenerationMode
) -> None:
    examples = repeats(15, 1_000)
    world = world_with(
        tmp_path, *(Answer("Yes.") for _ in range(examples)), users=(ADMIN,), limits={"queued_messages": 1_000}
    )
    async with world.running() as core, service(world, core) as served, moving(world, 1.0):
        await asyncio.to_thread(attack, served.url, served.secret(), operation_id, mode, examples)
