"""The registry over HTTP: what is read, published and withdrawn, by whom, and what is refused in which words."""

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.tokens import revoke_token
from goclaw.extensions.registries import catalog_store as shelf_module
from goclaw.extensions.registries.base import EntryKind, digest
from goclaw.extensions.registries.catalog_store import OWN, CatalogRow
from goclaw.extensions.registries.server import catalogue as catalogue_module
from tests.extensions.registries.server.house import House, address_of, document, open_house


async def listed(house: House, query: str = "") -> list[str]:
    """All that is listed, over all pages."""
    found, cursor = [], ""
    while True:
        answer = await house.ask("GET", f"/v1/entries?cursor={cursor}{query}")
        assert answer.status == 200
        found += [f"{each['document']['name']} {each['document']['version']}" for each in answer.body["entries"]]
        if not (cursor := answer.body["next_cursor"]):
            return found


async def test_what_is_published_is_listed_with_its_digest(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        entry = document(later={"field": [1.5, "é"]})
        answer = await house.ask("PUT", address_of(entry), "bob", entry)
        assert answer.status == 201
        assert (await house.ask("PUT", address_of(entry), "bob", entry)).status == 200
        answer = await house.ask("GET", "/v1/entries")
        [item] = answer.body["entries"]
        assert item == {
            "document": entry,
            "sha256": digest(entry),
            "published_at": 1_750_000_000.0,
            "latest": True,
            "via": [],
        }
        about = await house.ask("GET", "/v1/")
        assert about.body == {"registry": answer.body["registry"], "api_version": "v1"}
        assert len(about.body["registry"]["id"]) == 32 and answer.headers["server"] == "GoClaw"


async def test_names_with_slashes_have_an_address(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        entry = document("io.github.ann/data", "1.0.0+b.1")
        assert await house.publish("bob", entry) == 201
        assert (await house.ask("GET", address_of(entry))).body["document"] == entry
        assert (await house.ask("GET", "/v1/entries/toolset/io.github.ann/data/versions")).status == 404


async def test_the_newest_version_is_found_by_the_rules_of_versions(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        for version in ("1.10.0", "1.9.0", "2.0.0-rc.1", "2026"):
            assert await house.publish("bob", document(version=version)) == 201
        answer = await house.ask("GET", "/v1/entries/toolset/data-tools/versions")
        versions = [(each["document"]["version"], each["latest"]) for each in answer.body["versions"]]
        assert versions == [("2.0.0-rc.1", True), ("1.10.0", False), ("1.9.0", False), ("2026", False)]
        latest = await house.ask("GET", "/v1/entries/toolset/data-tools/versions/latest")
        assert latest.body["document"]["version"] == "2.0.0-rc.1"


async def test_what_is_not_there_is_not_found_in_words(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        await house.publish("bob", document())
        for path in (
            "/",
            "/v2/entries",
            "/v1/entries/toolset/other/versions",
            "/v1/entries/agent/data-tools/versions/1.0.0",
            "/v1/entries/toolset/data-tools/versions/2.0.0",
            "/v1/entries/toolset/other/versions/latest",
            "/v1/entries/toolset/data-tools%00/versions/latest",
        ):
            answer = await house.ask("GET", path)
            assert answer.status == 404 and set(answer.body) == {"error"}, path
        assert (await house.ask("POST", "/v1/entries", body={})).status == 405
        assert (await house.ask("DELETE", address_of(document("none")), "bob")).status == 404
        assert (await house.ask("DELETE", "/v1/entries/virus/none/versions/1", "bob")).status == 404


async def test_a_withdrawn_version_is_gone_and_comes_back_only_as_it_was(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        await house.publish("bob", document())
        assert (await house.ask("DELETE", address_of(document()), "bob")).status == 204
        assert await listed(house) == []
        answer = await house.ask("PUT", address_of(document()), "bob", document(description="Other."))
        assert answer.status == 409 and "use a new version" in answer.body["error"]
        assert await house.publish("bob", document()) == 201


@pytest.mark.parametrize(
    ("user", "status"),
    [("", 401), ("goclaw_" + "x" * 43, 401), ("gone", 403), ("eve", 403), ("bob", 201), ("ann", 201)],
)
async def test_admins_and_publishers_publish_and_nobody_else(tmp_path: Path, user: str, status: int) -> None:
    async with open_house(tmp_path) as house:
        answer = await house.ask("PUT", address_of(document()), user, document())
        assert answer.status == status
        assert status == 201 or (answer.body["error"] and house.shelf.entries(OWN) == [])
        assert status != 401 or answer.headers["www-authenticate"] == "Bearer"


async def test_a_name_is_its_first_publishers_and_admins_can_only_remove(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        await house.publish("bob", document())
        for user in ("mal", "ann"):
            answer = await house.ask("PUT", address_of(document(version="9.0.0")), user, document(version="9.0.0"))
            assert (answer.status, "belongs to another publisher" in answer.body["error"]) == (403, True)
        assert (await house.ask("DELETE", address_of(document()), "mal")).status == 403
        assert (await house.ask("DELETE", address_of(document()), "ann")).status == 204


async def test_a_full_registry_takes_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf_module, "MAX_ENTRIES", 1)
    async with open_house(tmp_path) as house:
        assert await house.publish("bob", document()) == 201 and await house.publish("bob", document()) == 200
        answer = await house.ask("PUT", address_of(document("more")), "bob", document("more"))
        assert answer.status == 507 and "withdraw old ones" in answer.body["error"]
        assert (await house.ask("DELETE", address_of(document()), "bob")).status == 204
        assert await house.publish("bob", document("more")) == 201


async def test_one_of_many_who_publish_a_name_at_once_gets_it(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        users = ["bob", "mal", "ann"] * 4
        made = [house.publish(user, document(version=f"{at}.0.0")) for at, user in enumerate(users)]
        statuses = await asyncio.gather(*made)
        owners = {user for user, status in zip(users, statuses, strict=True) if status == 201}
        assert len(owners) == 1 and statuses.count(201) == 4 and statuses.count(403) == 8


@pytest.mark.promise("P-audit")
async def test_every_publication_and_refusal_is_in_the_audit_log_with_its_token(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        await house.publish("bob", document())
        await house.publish("eve", document("other"))
        await house.publish("mal", document(version="2.0.0"))
        await house.ask("PUT", address_of(document("odd")), "ann", b"{")
        await house.ask("DELETE", address_of(document()), "bob")
        await house.ask("DELETE", address_of(document()), "bob")
        await house.ask("GET", "/v1/", "")
        seen = [
            (each.action, each.object, each.actor.key, each.allowed, each.rule, each.result) for each in house.audit
        ]
        publisher = "registry_server.publishers"
        assert seen == [
            ("registry.publish", "toolset data-tools 1.0.0", "tui:bob", True, f"token bob, {publisher}", "done"),
            ("registry.publish", "toolset other 1.0.0", "tui:eve", False, "token eve", "refused"),
            ("registry.publish", "toolset data-tools 2.0.0", "tui:mal", False, f"token mal, {publisher}", "refused"),
            (
                "registry.publish",
                "toolset odd 1.0.0",
                "tui:ann",
                True,
                "token ann, users.json tui:ann role admin",
                "refused",
            ),
            ("registry.withdraw", "toolset data-tools 1.0.0", "tui:bob", True, f"token bob, {publisher}", "done"),
            (
                "registry.withdraw",
                "toolset data-tools 1.0.0",
                "tui:bob",
                True,
                f"token bob, {publisher}",
                "nothing to do",
            ),
            ("client.attach", "127.0.0.1", "", False, "no valid access token", ""),
        ]
        assert all(each.actor.entry == "registry" for each in house.audit)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "should be JSON"),
        (b"{", "should be JSON"),
        (b"[" * 500_000, "should be JSON"),
        (b"[]", "should be a JSON object"),
        ({**document(), "version": "2.0.0"}, "should match the document"),
        ({**document(), "name": "a b"}, "name: should be a name such as"),
        ({**document(), "tools": [{"name": "x"}]}, "tools.0.input_schema: Field required"),
        ({**document(), "later": "x" * 600_000}, "more than 512 kB"),
    ],
)
async def test_what_is_no_entry_is_refused_with_what_is_wrong(tmp_path: Path, body: Any, words: str) -> None:
    async with open_house(tmp_path) as house:
        answer = await house.ask("PUT", address_of(document()), "bob", body)
        assert (answer.status, words in answer.body["error"]) == (400, True)
        assert house.shelf.list_own() == set()


async def test_what_is_larger_than_any_entry_is_not_read(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        answer = await house.ask("PUT", address_of(document()), "bob", io.BytesIO(b"x" * 1_200_000))
        assert answer.status == 413 and answer.body["error"]


@pytest.mark.promise("P-token")
async def test_reading_wants_a_token_unless_it_is_open(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        for path in ("/v1/", "/v1/entries", "/v1/entries/toolset/x/versions", "/v1/entries/toolset/x/versions/1"):
            assert (await house.ask("GET", path, "")).status == 401
            assert (await house.ask("GET", path, "gone")).status == 403
    async with open_house(tmp_path / "open", open=True) as house:
        assert (await house.ask("GET", "/v1/entries", "")).status == 200
        assert (await house.ask("GET", "/v1/entries", "goclaw_" + "x" * 43)).status == 401, "who shows one means it"
        assert (await house.ask("PUT", address_of(document()), "", document())).status == 401


@pytest.mark.promise("P-token")
async def test_a_revoked_token_is_none(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        assert await house.publish("bob", document()) == 201
        revoke_token(house.state / "access-tokens.json", "bob")
        # A change of the file is seen when a token is not known, or within a second (`tokens.open_tokens`).
        assert (await house.ask("GET", "/v1/entries", "goclaw_" + "x" * 43)).status == 401
        assert await house.publish("bob", document(version="2.0.0")) == 401


async def test_whoever_guesses_is_told_to_wait_and_a_valid_token_comes_in(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        answers = [await house.ask("GET", "/v1/", "goclaw_" + "x" * 43) for _ in range(12)]
        assert [answer.status for answer in answers] == [401] * 10 + [429] * 2
        assert answers[-1].headers["retry-after"] == "61"
        assert (await house.ask("GET", "/v1/")).status == 200
        assert len(house.audit) == 2


async def test_the_catalogue_comes_in_pages_that_have_each_entry_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue_module, "PAGE_ENTRIES", 10)
    async with open_house(tmp_path) as house:
        expected = []
        for at in range(12):
            house.shelf.publish(document(f"n{at:03}"), "tui:bob", 1.0)
            expected.append(f"n{at:03} 1.0.0")
        assert await listed(house) == expected and await listed(house, "&limit=5") == expected
        assert len((await house.ask("GET", "/v1/entries?limit=5000")).body["entries"]) == 10
        first = await house.ask("GET", "/v1/entries?limit=2")
        house.shelf.publish(document("n0005"), "tui:bob", 1.0)
        house.shelf.withdraw(EntryKind.TOOLSET, "n001", "1.0.0", None)
        rest = await house.ask("GET", f"/v1/entries?limit=2&cursor={first.body['next_cursor']}")
        names = [each["document"]["name"] for each in rest.body["entries"]]
        assert names == ["n002", "n003"], "what comes and goes meanwhile moves nothing else"


async def test_a_page_ends_where_it_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_house(tmp_path) as house:
        for at in range(8):
            house.shelf.publish(document(f"n{at}", later="x" * 400_000), "tui:bob", 1.0)
        page = (await house.ask("GET", "/v1/entries")).body
        assert len(page["entries"]) == 5 and len(await listed(house)) == 8
        monkeypatch.setattr(catalogue_module, "PAGE_VALUES", 1)
        assert len((await house.ask("GET", "/v1/entries")).body["entries"]) == 1 and len(await listed(house)) == 8


async def test_all_versions_of_something_are_no_more_than_a_page(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        for at in range(8):
            house.shelf.publish(document(version=f"1.0.{at}", later="x" * 400_000), "tui:bob", 1.0)
        found = (await house.ask("GET", "/v1/entries/toolset/data-tools/versions")).body
        assert [each["document"]["version"] for each in found["versions"]] == [f"1.0.{at}" for at in (7, 6, 5, 4, 3)]
        assert found["complete"] is False


async def test_one_kind_can_be_asked_for_alone(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        await house.publish("bob", document())
        await house.publish("bob", {**document("robot"), "kind": "agent"})
        assert await listed(house) == ["robot 1.0.0", "data-tools 1.0.0"]
        assert await listed(house, "&kind=agent") == ["robot 1.0.0"]


@pytest.mark.parametrize(
    "query", ["kind=virus", "limit=x", "limit=-1", "cursor=x", "cursor=WzFd", f"cursor={'A' * 2000}"]
)
async def test_a_query_that_is_none_is_refused(tmp_path: Path, query: str) -> None:
    async with open_house(tmp_path) as house:
        answer = await house.ask("GET", f"/v1/entries?{query}")
        assert answer.status == 400 and answer.body["error"]


async def test_nothing_new_is_said_without_a_body(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        await house.publish("bob", document())
        tag = (await house.ask("GET", "/v1/entries")).headers["etag"]
        for shown in (tag, f'"x", W/{tag}'):
            answer = await house.ask("GET", "/v1/entries", **{"If-None-Match": shown})
            assert (answer.status, answer.body, answer.headers["etag"]) == (304, None, tag)
        other = (await house.ask("GET", "/v1/entries?kind=agent")).headers["etag"]
        assert other != tag and "etag" not in (await house.ask("GET", "/v1/entries?cursor=WyJhIiwiYSIsImEiXQ")).headers
        await house.publish("bob", document(version="2.0.0"))
        assert (await house.ask("GET", "/v1/entries", **{"If-None-Match": tag})).status == 200
        house.shelf.withdraw(EntryKind.TOOLSET, "data-tools", "2.0.0", None)
        assert (await house.ask("GET", "/v1/entries", **{"If-None-Match": tag})).status == 304, "it is as it was"


async def test_shared_registries_are_offered_with_the_way_they_came(tmp_path: Path) -> None:
    registries = {
        "corp": {"url": "http://127.0.0.1:9", "federation": {"share": True}},
        "secret": {"url": "http://127.0.0.1:9"},
    }
    async with open_house(tmp_path, registries=registries) as house:
        house.shelf.replace_catalog("corp", [CatalogRow(document("theirs"), 5.0, latest=True, via=("a", "b"))], 1.0)
        house.shelf.replace_catalog("secret", [CatalogRow(document("hidden"), 5.0)], 1.0)
        await house.publish("bob", document())
        answer = await house.ask("GET", "/v1/entries")
        found = {each["document"]["name"]: each["via"] for each in answer.body["entries"]}
        assert found == {"data-tools": [], "theirs": ["a", "b"]}


async def test_nobody_elsewhere_is_the_newest_of_a_name_that_is_ours(tmp_path: Path) -> None:
    """What is known as dependency confusion."""
    shared = {"url": "http://127.0.0.1:9", "federation": {"share": True}}
    async with open_house(tmp_path, registries={"one": shared, "two": shared}) as house:
        for registry in ("one", "two"):
            house.shelf.replace_catalog(
                registry, [CatalogRow(document(version=f"{len(registry) * 9}.0.{registry == 'two':d}"), 5.0)], 1.0
            )
        assert await listed(house) == ["data-tools 27.0.0"], "of two registries the first"
        await house.publish("bob", document())
        assert await listed(house) == ["data-tools 1.0.0"]
        house.shelf.withdraw(EntryKind.TOOLSET, "data-tools", "1.0.0", None)
        assert await listed(house) == [], "a name that was ours stays ours"


async def test_a_name_that_is_ours_is_ours_as_every_kind(tmp_path: Path) -> None:
    """Who uses `data-tools` of this registry does not say which kind it is."""
    shared = {"url": "http://127.0.0.1:9", "federation": {"share": True}}
    async with open_house(tmp_path, registries={"one": shared}) as house:
        house.shelf.replace_catalog("one", [CatalogRow({**document("Data-Tools"), "kind": "mcp-server"}, 5.0)], 1.0)
        await house.publish("bob", document())
        assert await listed(house) == ["data-tools 1.0.0"]


async def test_a_registry_whose_file_is_broken_says_that_it_cannot_answer(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        await house.publish("bob", document())
        (house.state / "registry.db").write_bytes(b"no database" * 1_000)
        for method, path in (("GET", "/v1/entries"), ("PUT", address_of(document()))):
            answer = await house.ask(method, path, "bob", document() if method == "PUT" else None)
            assert (answer.status, answer.body["error"]) == (503, "this registry cannot answer now")
