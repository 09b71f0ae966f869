"""What the listener and the webhook may be configured to: whatever strangers could reach needs a credential."""

import pytest

from goclaw.common.config.listening import contradictions, hosts, is_loopback, listens, pages, route_parts, webhook_path
from goclaw.common.config.schema import Config

URL = "https://claw.example.org/telegram"


def config(http: dict[str, object] | None = None, **telegram: object) -> Config:
    """A configuration with a token, unless `token` is None."""
    given = {"token": "42:AAx", **telegram}
    return Config.model_validate({"http": http or {}, "telegram": given})


def faults(found: Config) -> list[str]:
    """The keys at fault."""
    return [".".join(map(str, loc)) for loc, _ in contradictions(found)]


def webhook(url: str | None = URL, http: dict[str, object] | None = None, **more: object) -> Config:
    return config(http, mode="webhook", webhook={"url": url} | more if url else more)


def test_nothing_listens_unless_something_needs_it() -> None:
    assert not listens(config())
    assert listens(config({"enabled": True}))
    assert listens(webhook())
    assert not listens(config(mode="webhook", webhook={"url": URL}, token=None)), "Telegram is off"
    assert not listens(config(mode="webhook", webhook={"url": URL}, enabled=False))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "claw.lan", "0", "127.1", "localhost.example"])  # noqa: S104 - that is what is refused
def test_beyond_this_machine_it_listens_only_with_a_credential(host: str) -> None:
    assert faults(config({"host": host})) == ["http.host"]
    assert faults(config({"host": host, "enabled": True})) == ["http.host"]
    assert faults(config({"host": host, "enabled": False})) == [], "nothing listens"
    assert faults(webhook(http={"host": host})) == [], "the webhook has its secret"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_needs_no_credential(host: str) -> None:
    assert is_loopback(host)
    assert faults(config({"host": host, "enabled": True})) == []


@pytest.mark.parametrize("host", ["", " ", "*", "a b", "[::1]", "http://x", "-x", "x/y"])
def test_an_address_is_an_address(host: str) -> None:
    """An empty one would mean every address of the machine."""
    with pytest.raises(ValueError, match="name or the address of this machine"):
        config({"host": host})


def test_a_webhook_needs_an_address_and_the_listener() -> None:
    assert faults(webhook(None)) == ["telegram.mode"]
    assert faults(webhook(http={"enabled": False})) == ["http.enabled"]
    assert faults(webhook()) == []


@pytest.mark.parametrize("url", ["http://claw.example.org/x", "https://claw.example.org:8080/x"])
def test_telegram_calls_only_https_on_its_ports(url: str) -> None:
    assert faults(webhook(url)) == ["telegram.webhook.url"]
    own = config(mode="webhook", webhook={"url": url}, base_url="http://127.0.0.1:8081")
    assert faults(own) == [], "a Bot API server of one's own calls anything"


@pytest.mark.parametrize("port", [443, 80, 88, 8443])
def test_each_of_telegrams_ports_will_do(port: int) -> None:
    assert faults(webhook(f"https://claw.example.org:{port}/x")) == []


def test_the_path_is_that_of_the_address_unless_it_is_given() -> None:
    assert webhook_path(webhook().telegram) == "/telegram"
    assert webhook_path(webhook("https://claw.example.org").telegram) == "/"
    assert webhook_path(webhook(path="/hook").telegram) == "/hook"
    assert faults(webhook(path="/healthz")) == ["telegram.webhook.path"]
    with pytest.raises(ValueError, match="should be the path"):
        webhook(path="hook/{x}")


def test_names_are_those_configured_and_that_of_the_webhook() -> None:
    assert hosts(webhook(http={"hosts": "Claw.lan,other"})) == {"claw.lan", "other", "claw.example.org"}
    assert hosts(config()) == frozenset()


@pytest.mark.parametrize("secret", ["short", "x" * 257, "with space in it yes", "umlaut-in-it-ä-yes"])
def test_a_secret_that_telegram_refuses_or_anybody_guesses_is_none(secret: str) -> None:
    with pytest.raises(ValueError, match="should be"):
        webhook(secret=secret)


@pytest.mark.parametrize("to", ["5", "telegram:ann", "telegram:", "telegram:0", "tui:me", "telegram:5:x"])
def test_alerts_go_to_a_chat_by_its_number(to: str) -> None:
    with pytest.raises(ValueError, match="telegram:<chat id>"):
        Config.model_validate({"alerts": {"to": to}})


@pytest.mark.parametrize("to", ["telegram:5", "telegram:-1001234", "telegram:-1001234:9"])
def test_people_groups_and_topics_are_chats(to: str) -> None:
    assert Config.model_validate({"alerts": {"to": to}}).alerts.to == to


@pytest.mark.promise("P-web-off")
def test_the_web_page_is_off_until_it_is_wanted_and_brings_the_api() -> None:
    assert list(route_parts(config())) == [] and list(route_parts(config({"web": True}))) == ["api", "web"]
    assert list(route_parts(config({"api": True}))) == ["api"] and listens(config({"web": True}))
    assert faults(config({"web": True})) == [] and faults(config({"web": True, "enabled": False})) == ["http.enabled"]


@pytest.mark.promise("P-web-cookie")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "claw.lan"])  # noqa: S104 - that is what is refused
def test_people_log_in_over_no_network_without_a_proxy_that_speaks_https(host: str) -> None:
    assert faults(config({"web": True, "host": host})) == ["http.host"]
    assert faults(config({"web": True, "host": host, "public_url": "http://claw.lan"})) == ["http.public_url"]
    assert faults(config({"web": True, "public_url": "http://claw.lan"})) == ["http.public_url"]
    assert faults(config({"web": True, "host": host, "public_url": "https://claw.lan"})) == []
    assert faults(config({"web": True, "public_url": "http://localhost:8137"})) == []


def test_the_page_s_own_origin_may_call_and_that_of_its_public_address() -> None:
    public: dict[str, object] = {"public_url": "https://Claw.example.org/", "origins": ["https://other.example"]}
    assert pages(config({"web": True, **public})) == {"https://other.example", "https://claw.example.org"}
    assert pages(config(public)) == {"https://other.example"}


def test_no_webhook_has_a_path_of_the_web_page() -> None:
    page: dict[str, object] = {"web": True}
    for url in ("https://claw.example.org", "https://claw.example.org/"):
        assert faults(webhook(url, http=page)) == ["telegram.webhook.path"] and faults(webhook(url)) == []
    for path in ("/web/login", "/web/hook", "/api/v1/hook"):
        assert faults(webhook(path=path, http=page)) == ["telegram.webhook.path"]
    assert faults(webhook(path="/webhook", http=page)) == faults(webhook(http=page)) == []


def test_a_registry_that_is_configured_has_a_port_of_its_own() -> None:
    def found(**settings: object) -> list[str]:
        return faults(Config.model_validate(settings))

    http, mcp = {"enabled": True, "port": 8139}, {"server": {"enabled": True, "port": 8139}}
    assert found(http=http) == found(mcp=mcp) == [], "nobody serves a registry"
    assert found(http=http, registry_server={"open": True}) == ["registry_server.port"]
    assert found(mcp=mcp, registry_server={"open": True}) == ["registry_server.port"]
    assert found(mcp=mcp, http={"port": 8139}, registry_server={"port": 8140}) == []
    assert found(http={"enabled": True, "port": 0}, registry_server={"port": 0}) == []
