"""Bugs in the metrics: who reads them, what they count, what they cost."""

from tests.mutations.bug import Bug, bug

_METRICS = "goclaw/gateway/servers/metrics/serving.py"
_COUNTING = "goclaw/gateway/servers/metrics/counting.py"
_SCRAPES = "tests/gateway/servers/metrics/test_serving.py"
_COUNTED = "tests/gateway/servers/metrics/test_counting.py"

BUGS: list[Bug] = [
    bug(
        "the alert compares failed turns with failed turns",
        "PromQL matches the labels of both sides: it fires for one of 25,000",
        "docs/metrics.md",
        'sum(rate(goclaw_turns_total{outcome="failed"}[15m])) > 0.1 * sum(rate(goclaw_turns_total[15m]))',
        'rate(goclaw_turns_total{outcome="failed"}[15m]) > 0.1 * rate(goclaw_turns_total[15m])',
        "tests/gateway/servers/metrics/test_families.py"
        "::test_the_alert_of_the_page_fires_for_a_tenth_of_failed_turns_and_not_for_one_in_25_000",
    ),
    bug(
        "counters begin at the first of their kind",
        "rate() sees no increase in a series that begins at 1",
        "goclaw/gateway/servers/metrics/families.py",
        "        turns = {outcome.value: counts.turns[outcome.value] for outcome in Outcome}",
        "        turns = counts.turns",
        "tests/gateway/servers/metrics/test_families.py::test_counters_begin_at_zero",
    ),
    bug(
        "the metrics are for everybody where only this machine is listened to",
        "class trust: a reverse proxy on the same machine",
        _METRICS,
        "and not any(name in request.headers for name in FORWARDING)",
        "",
        f"{_SCRAPES}::test_who_comes_over_a_proxy_or_shows_a_wrong_token_is_not_of_this_machine",
    ),
    bug(
        "the metrics take a forwarded caller for one of this machine",
        "class trust: a proxy without headers, under its public name",
        _METRICS,
        'str(peer[0]) if peer else "", named)',
        'str(peer[0]) if peer else "")',
        f"{_SCRAPES}::test_who_comes_over_a_proxy_or_shows_a_wrong_token_is_not_of_this_machine",
    ),
    bug(
        "the metrics are for every token",
        "class rights: a guest reads what is the operator's",
        _METRICS,
        "        if not self._ports.access.is_admin(actor):",
        "        if False:",
        f"{_SCRAPES}::test_where_others_can_call_a_token_of_an_admin_is_wanted",
    ),
    bug(
        "a wrong token is none, for the metrics",
        "class trust: a token that was revoked goes on",
        _METRICS,
        'if "Authorization" in request.headers or not',
        "if not",
        f"{_SCRAPES}::test_who_comes_over_a_proxy_or_shows_a_wrong_token_is_not_of_this_machine",
    ),
    bug(
        "names that a model invents are labels",
        "class bounds: a series for each name",
        _COUNTING,
        "    return name if name in TOOLS else OTHER",
        "    return name",
        f"{_COUNTED}::test_tools_are_counted_by_name_and_outcome_and_names_of_others_are_one",
    ),
    bug(
        "each model that was ever named is a label",
        "class bounds: a series for each name",
        _COUNTING,
        "        if spec in self._models or len(self._models) < MAX_MODELS:",
        "        if True:",
        f"{_COUNTED}::test_models_beyond_a_bound_are_one",
    ),
    bug(
        "what runs side by side is taken off the overhead twice",
        "class numbers: agents are tools with models in them",
        _COUNTING,
        "        if not self.waits_for:\n            self._overhead += now - self._alone_since",
        "        self._overhead += now - self._alone_since",
        f"{_COUNTED}::test_what_runs_at_the_same_time_counts_once",
    ),
    bug(
        "an agent's turn is counted as a person's",
        "class numbers: agents are tools with turns of their own",
        _COUNTING,
        "            return\n        self.counts.turns[",
        "            pass\n        self.counts.turns[",
        f"{_COUNTED}::test_what_runs_at_the_same_time_counts_once",
    ),
    bug(
        "an agent's turn has waited in the queue",
        "class numbers: agents are tools with turns of their own",
        _COUNTING,
        "            return  # that of an agent, which is a tool of its turn",
        "            pass",
        f"{_COUNTED}::test_what_runs_at_the_same_time_counts_once",
    ),
    bug(
        "a fault of what counts fails the turn",
        "class faults: what merely watches",
        "goclaw/common/core/bus.py",
        "            except Exception:  # no turn",
        "            except ZeroDivisionError:  # no turn",
        "tests/common/core/test_bus.py::test_a_watcher_is_called_at_once_with_its_kind_alone_and_its_faults_are_the_log_s",
    ),
    bug(
        "a request that its caller leaves is never over",
        "class numbers: /stop",
        "goclaw/llm/chain.py",
        "        finally:\n            asked.answer = attempt.answer",
        "        else:\n            asked.answer = attempt.answer",
        "tests/llm/test_chain.py::test_a_watch_is_told_of_a_request_that_its_caller_leaves",
    ),
    bug(
        "the metrics are loaded although they are off",
        "class cost: nobody asked for it",
        "goclaw/gateway/servers/routes.py",
        "from goclaw.gateway.servers.serving import ServingGateway\n",
        "from goclaw.gateway.servers.serving import ServingGateway\nimport prometheus_client\n",
        "tests/gateway/servers/metrics/test_families.py::test_it_is_loaded_where_it_is_on_and_takes_three_megabytes_at_most",
    ),
]
