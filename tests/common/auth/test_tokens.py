"""Access tokens at rest: hashes only, in a file that nobody else reads; what is broken lets nobody in."""

import asyncio
import json
import resource
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from goclaw.common.auth.tokens import (
    DEVICE,
    LOOK_SECONDS,
    MAX_TOKENS,
    Token,
    Tokens,
    add_device,
    add_token,
    digest_of,
    open_tokens,
    read_tokens,
    revoke_token,
)
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.redact import mask
from goclaw.errors import ConfigError
from tests.harness import before_the_next_look


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "access-tokens.json"


def known(path: Path, clock: SteppedClock | None = None) -> Tokens:
    tokens = Tokens(path, clock or SteppedClock())
    asyncio.run(tokens.refresh())
    return tokens


def test_a_token_is_256_random_bits_of_which_only_the_hash_is_kept(path: Path) -> None:
    secrets = {add_token(path, f"t{number}", "tui:ann", 1.0) for number in range(50)}
    assert len(secrets) == 50 and all(len(secret) == len("goclaw_") + 43 for secret in secrets)
    text = path.read_text()
    assert not any(secret in text for secret in secrets) and stat.S_IMODE(path.stat().st_mode) == 0o600
    tokens = known(path)
    assert {tokens.find(secret) for secret in secrets} == {f"t{number}" for number in range(50)}


def test_what_is_not_exactly_a_token_is_none(path: Path) -> None:
    secret = add_token(path, "laptop", "tui:ann", 1.0)
    tokens = known(path)
    for wrong in ("", secret[:-1], secret + "x", secret.upper(), digest_of(secret), "\ud800", secret[7:]):
        assert tokens.find(wrong) == ""


def test_a_token_in_a_text_is_masked(path: Path) -> None:
    secret = add_token(path, "laptop", "tui:ann", 1.0)
    assert secret not in mask(f"I pasted {secret} here") and "[secret]" in mask(secret)


def test_a_token_ends_at_its_time(path: Path) -> None:
    clock = SteppedClock()
    secret = add_token(path, "laptop", "tui:ann", clock.now(), clock.now() + 10)
    tokens = known(path, clock)
    assert tokens.find(secret) == "laptop"
    clock.jump(10)
    assert tokens.find(secret) == ""


async def test_a_token_made_since_the_last_look_is_known_at_once(path: Path) -> None:
    tokens = Tokens(path, SteppedClock())
    await tokens.refresh()
    first = add_token(path, "laptop", "tui:ann", 1.0)
    assert tokens.find(first) == "" and await tokens.find_new(first) == "laptop"
    second = add_token(path, "phone", "tui:ann", 1.0)
    assert await tokens.find_new(second) == "phone" and await tokens.find_new("guessed") == ""


async def test_many_who_come_at_the_same_moment_with_a_new_token_are_all_let_in(path: Path) -> None:
    secret = add_token(path, "laptop", "tui:ann", 1.0)
    tokens = Tokens(path, SteppedClock())
    assert await asyncio.gather(*(tokens.find_new(secret) for _ in range(50))) == ["laptop"] * 50


async def test_guesses_do_not_have_the_file_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_token(path, "laptop", "tui:ann", 1.0)
    tokens, read = Tokens(path, SteppedClock()), list[Path]()

    def noted(path: Path) -> Mapping[str, Token]:
        read.append(path)
        return read_tokens(path)

    monkeypatch.setattr("goclaw.common.auth.tokens.read_tokens", noted)
    for _ in range(5):
        assert await tokens.find_new("guessed") == ""
    assert read == [path]


async def test_tokens_that_cannot_be_read_for_a_moment_are_good_again_without_a_change_of_the_file(path: Path) -> None:
    secret, clock = add_token(path, "laptop", "tui:ann", 1.0), SteppedClock()
    began = clock.now()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with open_tokens(path, clock) as tokens:

        async def look(until: Callable[[], object]) -> None:
            async with asyncio.timeout(20):
                while not until():
                    if clock.sleepers:
                        clock.advance(LOOK_SECONDS)
                    await before_the_next_look()

        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))  # no descriptor is free
        try:
            await look(lambda: clock.now() >= began + 4 * LOOK_SECONDS)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert tokens.problem and tokens.find(secret) == ""
        await look(lambda: tokens.find(secret))


def test_a_revoked_token_is_none(path: Path) -> None:
    secret = add_token(path, "laptop", "tui:ann", 1.0)
    tokens = known(path)
    token = tokens.get("laptop")
    assert token and tokens.objection("laptop", token) == ""
    revoke_token(path, "laptop")
    asyncio.run(tokens.refresh())
    assert tokens.find(secret) == "" and tokens.objection("laptop", token) == "the token laptop was revoked"
    with pytest.raises(ConfigError, match="there is no token laptop"):
        revoke_token(path, "laptop")


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "x" * 65, "ä", "a\n"])
def test_a_name_is_a_name(path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="a token's name"):
        add_token(path, name, "tui:ann", 1.0)
    assert not path.exists()


def test_a_name_stands_for_one_token(path: Path) -> None:
    add_token(path, "laptop", "tui:ann", 1.0)
    with pytest.raises(ConfigError, match="already"):
        add_token(path, "laptop", "tui:bob", 1.0)
    assert read_tokens(path)["laptop"].user == "tui:ann"


def test_there_are_only_so_many(path: Path) -> None:
    entry = {"user": "tui:ann", "sha256": "0" * 64, "made": 1.0, "until": None}
    path.write_text(json.dumps({"tokens": {f"t{number}": entry for number in range(MAX_TOKENS)}}))
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="revoke unused"):
        add_token(path, "one-more", "tui:ann", 1.0)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"tokens": []}',
        '{"tokens": {"a": {}}}',
        '{"tokens": {"a": {"user": "tui:ann", "sha256": "", "made": 1}}}',
        '{"tokens": {"a": {"user": "tui:ann", "sha256": "HASH", "made": 1, "admin": true}}}',
        '{"tokens": {"a": {"user": "tui:ann", "sha256": "HASH", "made": "now"}}}',
        "\0\1",
    ],
)
def test_a_broken_file_lets_nobody_in_and_is_not_overwritten(path: Path, content: str) -> None:
    secret = add_token(path, "laptop", "tui:ann", 1.0)
    tokens = known(path)
    path.write_text(content.replace("HASH", digest_of(secret)))
    asyncio.run(tokens.refresh())
    assert tokens.find(secret) == "" and "access-tokens.json" in tokens.problem
    before = path.read_bytes()
    with pytest.raises(ConfigError):
        add_token(path, "other", "tui:ann", 1.0)
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_file_that_others_can_read_or_change_lets_nobody_in(path: Path, mode: int) -> None:
    secret = add_token(path, "laptop", "tui:ann", 1.0)
    path.chmod(mode)
    tokens = known(path)
    assert tokens.find(secret) == "" and "chmod 600" in tokens.problem
    path.chmod(0o600)
    asyncio.run(tokens.refresh())
    assert tokens.find(secret) == "laptop" and not tokens.problem


def test_a_link_in_its_place_is_not_followed(path: Path, tmp_path: Path) -> None:
    secret = add_token(tmp_path / "elsewhere.json", "laptop", "tui:ann", 1.0)
    path.symlink_to(tmp_path / "elsewhere.json")
    assert known(path).find(secret) == ""


async def test_those_who_write_at_once_lose_nothing(path: Path) -> None:
    names = [f"t{number}" for number in range(20)]
    await asyncio.gather(*(asyncio.to_thread(add_token, path, name, "tui:ann", 1.0) for name in names))
    assert sorted(read_tokens(path)) == sorted(names)


def test_a_device_is_valid_while_the_token_is_that_it_was_made_with(path: Path) -> None:
    clock = SteppedClock()
    now = clock.now()
    add_token(path, "laptop", "tui:ann", now, now + 100)
    parent = read_tokens(path)["laptop"].sha256
    name, secret = add_device(path, "tui:ann", "Firefox on Linux", now, now + 1_000, parent=parent)
    add_device(path, "tui:bob", "Firefox on Linux", now, now + 1_000)
    tokens = known(path, clock)
    assert name.startswith(DEVICE) and tokens.find(secret) == name and list(tokens.devices("tui:ann")) == [name]
    device = read_tokens(path)[name]
    clock.advance(100)
    assert tokens.find(secret) == "" and tokens.objection(name, device) == f"the token {name} has expired"
    assert tokens.devices("tui:ann") == {}
    revoke_token(path, "laptop")
    assert name not in read_tokens(path) and len(read_tokens(path)) == 1


def test_a_device_whose_token_is_gone_from_the_file_by_hand_is_none(path: Path) -> None:
    clock = SteppedClock()
    now = clock.now()
    _, secret = add_device(path, "tui:ann", "Firefox", now, now + 1_000, parent="0" * 64)
    assert known(path, clock).find(secret) == ""
