"""The names of the metrics: those of the page and of the dashboard exist, and the library adds none of its own."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from goclaw.common.config.listening import contradictions, listens, route_parts
from goclaw.common.config.schema import Config
from goclaw.common.core.events import Outcome
from goclaw.common.health.resources import DiskUse, resident_memory
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.store.replicas import Replica, StoreUse
from goclaw.gateway.servers.metrics.counting import MAX_MODELS, TOOLS, Counts
from goclaw.gateway.servers.metrics.families import Measures, exposition
from tests import house
from tests.gateway.servers.metrics.calling import VITALS

DASHBOARD = house.ROOT / "deploy" / "grafana-dashboard.json"
PAGE = house.ROOT / "docs" / "metrics.md"
NAME = re.compile(r"\bgoclaw_[a-z_]+")
USE = StoreUse([Replica("a", "hall", "0.1.0", "shared", 1.0, 0.0, True, 2, True)], 0.1, 12, 13, 100)
NOW = Measures(VITALS, 1, DiskUse(1, 2, 3, 4), USE)
MEGABYTE = 1_000_000
LOADING = """
import gc, sys
import goclaw.gateway.servers.http, goclaw.gateway.servers.terminals
import goclaw.conversation.turns.service, goclaw.conversation.agent.loop
from goclaw.common.core import catalog, plugins
from goclaw.common.health.resources import resident_memory
from goclaw.gateway.servers.routes import RoutePart
assert not {"prometheus_client", "goclaw.gateway.servers.metrics"} & sys.modules.keys()
gc.collect()
before = resident_memory()
plugins.load_large(catalog.ROUTES["metrics"], RoutePart)
print(resident_memory() - before)
"""


def outbox() -> Outbox:
    return cast("Outbox", SimpleNamespace(counts={("memory", "sent"): 1}, waiting=lambda: 0))


def text_of(counts: Counts, now: Measures = NOW) -> str:
    return exposition(counts, outbox(), now).decode()


def families() -> dict[str, set[str]]:
    """The labels of each name that may be in a query, once everything has happened."""
    counts = Counts()
    counts.turns["answered"] += 1
    counts.tool_calls["read", "ok"] += 1
    counts.tool_seconds["read"] += 1
    counts.model_requests["a:b", "answered"] += 1
    counts.model_tokens["a:b", "input"] += 1
    counts.model_seconds["a:b"].observe(1)
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text_of(counts)):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_counters_begin_at_zero() -> None:
    """`rate` sees no increase in a series that begins at 1."""
    text = text_of(Counts())
    for outcome in Outcome:
        assert f'goclaw_turns_total{{outcome="{outcome.value}"}} 0.0' in text
    counts = Counts()
    counts.tool_calls["read", "ok"] += 1
    counts.tool_seconds["read"] += 1
    text = text_of(counts)
    assert 'goclaw_tool_calls_total{outcome="ok",tool="read"} 1.0' in text
    assert 'goclaw_tool_calls_total{outcome="error",tool="read"} 0.0' in text


@pytest.mark.long
@pytest.mark.promise("P-metrics")
def test_the_alert_of_the_page_fires_for_a_tenth_of_failed_turns_and_not_for_one_in_25_000(tmp_path: Path) -> None:
    if not (promtool := shutil.which("promtool")):
        pytest.skip("promtool is not installed: Debian's package `prometheus` has it")
    alerts = re.search(r"goclaw-alerts\.yml <<'END'\n(.*?)END\n", PAGE.read_text("utf-8"), re.DOTALL)
    assert alerts
    (tmp_path / "alerts.yml").write_text(alerts[1])

    def case(answered: int, failed: int, *, fires: bool) -> dict[str, Any]:
        series = "goclaw_turns_total{job='goclaw',outcome='%s'}"
        pace = {"answered": f"0+{answered}x30", "failed": f"0+{failed}x15 {failed * 15}x15", "stopped": "0x30"}
        told: list[dict[str, Any]] = [{"exp_labels": {}}] if fires else []
        return {
            "interval": "1m",
            "input_series": [{"series": series % outcome, "values": values} for outcome, values in pace.items()],
            "alert_rule_test": [{"eval_time": "15m", "alertname": "GoClawTurnsFail", "exp_alerts": told}],
        }

    cases = [case(25_000, 1, fires=False), case(8, 2, fires=True), case(20, 1, fires=False), case(0, 0, fires=False)]
    (tmp_path / "test.yml").write_text(json.dumps({"rule_files": ["alerts.yml"], "tests": cases}))
    done = subprocess.run(
        [promtool, "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.promise("P-metrics")
def test_no_label_names_a_user_a_session_or_a_chat() -> None:
    labels = set[str]().union(*families().values())
    assert labels == {"outcome", "tool", "model", "kind", "channel", "of", "le"}


def test_every_metric_of_the_dashboard_exists_with_its_labels() -> None:
    known, dashboard = families(), json.loads(DASHBOARD.read_text("utf-8"))
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    assert len({(place["x"], place["y"]) for place in places}) == len(places)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(places)
    used = set[str]()
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            names = NAME.findall(target["expr"])
            assert names and set(names) <= known.keys(), target["expr"]
            grouped = {label for group in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in group.split(", ")}
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"])) - {"instance"}
            assert grouped | shown <= set[str]().union(*(known[name] for name in names)), panel["title"]
            used |= {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}
    assert used == {re.sub(r"_(bucket|sum|count)$", "", name) for name in known}, "and each is shown"


def test_the_page_names_every_metric_with_its_labels_and_no_other() -> None:
    rows = re.findall(r"^\| `(goclaw_[a-z_]+)` \|([^|]*)\|", PAGE.read_text("utf-8"), re.MULTILINE)
    written = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    known = {name: labels - {"le"} for name, labels in families().items()}
    plain = {re.sub(r"_(bucket|sum|count)$", "", name): labels for name, labels in known.items()}
    assert written == plain
    text = PAGE.read_text("utf-8")
    assert set(NAME.findall(text)) - {"goclaw_"} <= plain.keys() | known.keys()


def test_the_number_of_rows_is_bounded() -> None:
    counts = Counts()
    tools = [*sorted(TOOLS), "other"]
    for tool in tools:
        for outcome in ("ok", "error", "refused", "stopped"):
            counts.tool_calls[tool, outcome] += 1
        counts.tool_seconds[tool] += 1
    for number in range(MAX_MODELS + 1):
        counts.model_seconds[f"provider:model-{number}"].observe(1)
        for outcome in map(str, range(15)):
            counts.model_requests[f"provider:model-{number}", outcome] += 1
    assert len(text_of(counts).splitlines()) < 2_000


def test_what_cannot_be_measured_is_left_out(tmp_path: Path) -> None:
    text = text_of(Counts(), Measures({}))
    assert not [name for name in ("memory", "disk", "database", "loop", "unhandled") if f"goclaw_{name}" in text]
    (tmp_path / "statm").write_text("9\n")
    assert resident_memory(tmp_path / "statm") is None and resident_memory(tmp_path / "none") is None


def test_of_several_gateways_it_says_how_many_live_and_what_they_take_of_the_server() -> None:
    def seen(name: str, *, lives: bool, sessions: int) -> Replica:
        return Replica(name, name, "1", "shared", 5.0, 1.0, lives, sessions, name == "here")

    gateways = [
        seen("here", lives=True, sessions=3),
        seen("there", lives=True, sessions=4),
        seen("gone", lives=False, sessions=2),
    ]
    text = text_of(Counts(), Measures({}, store=StoreUse(gateways, 0.25, 20, 30, 100)))
    assert "goclaw_gateways 2.0" in text and "goclaw_sessions_owned 3.0" in text
    assert "goclaw_notification_queue_ratio 0.25" in text and "goclaw_store_connections 20.0" in text


def test_nothing_of_the_library_s_own_registry_is_used(tmp_path: Path) -> None:
    """Neither its collectors, nor its files for several processes, even where the environment asks for those."""
    text = text_of(Counts())
    assert "python_info" not in text and "process_" not in text
    assert not [family.name for family in REGISTRY.collect() if family.name.startswith("goclaw")]
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    program = "import goclaw.gateway.servers.metrics.families as f, goclaw.gateway.servers.metrics.counting as c\n"
    program += "from collections import Counter; from types import SimpleNamespace as S\n"
    program += "print(f.exposition(c.Counts(), S(counts=Counter(), waiting=lambda: 0), f.Measures({})).decode())"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=30
    )
    assert "goclaw_turn_seconds_count 0.0" in done.stdout and list(tmp_path.iterdir()) == []


@pytest.mark.promise("P-metrics")
def test_it_is_loaded_where_it_is_on_and_takes_three_megabytes_at_most() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADING], cwd=house.ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) <= 3 * MEGABYTE


def test_the_switch_opens_the_listener_and_needs_it() -> None:
    off, on = Config.model_validate({}), Config.model_validate({"http": {"metrics": True}})
    assert (listens(off), list(route_parts(off))) == (False, [])
    assert (listens(on), list(route_parts(on))) == (True, ["metrics"])
    clash = Config.model_construct(**{**dict(on), "http": on.http.model_copy(update={"enabled": False})})
    assert [words for _, words in contradictions(clash)] == [
        "should be true or unset: `http.metrics` needs the listener"
    ]
