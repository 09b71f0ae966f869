"""The keys of `agents`: durations as people write them, what excludes each other, and where a slip is."""

from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from goclaw.common.config.load import load_config
from goclaw.common.config.schema import Config
from goclaw.common.config.values import Duration
from goclaw.errors import ConfigError

DURATION: TypeAdapter[float] = TypeAdapter(Duration)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("45s", 45), ("2m", 120), ("1h30m", 5400), ("1h 30m", 5400), ("1d", 86_400), ("0.5s", 0.5), (90, 90), ("90", 90)],
)
def test_a_duration_is_what_a_person_means(written: object, seconds: float) -> None:
    assert DURATION.validate_python(written) == seconds


@pytest.mark.parametrize("written", ["", "soon", "0", "0s", "-2m", "2 minutes", "m", "1m1h", True, [1], "1e9", "٣s"])
def test_what_is_no_duration_is_refused(written: object) -> None:
    with pytest.raises(ValidationError):
        DURATION.validate_python(written)


@pytest.mark.parametrize(
    ("lines", "place", "problem"),
    [
        (["time_budget: 2m", "timing: {plan: 45s}"], "5:7", "policy.timing: excludes `time_budget`"),
        (
            ["history: {keep_recent_turns: 3, compress: {trigger_at: 20}}"],
            "4:39",
            "history.compress: excludes `keep_recent_turns`",
        ),
        (
            ["history: {compress: {trigger_at: 5, keep_recent: 5}}"],
            "4:43",
            "compress.keep_recent: should be less than `trigger_at` (5)",
        ),
        (
            ["history: {compress: {trigger_at: 5}}"],
            "4:17",
            "compress.keep_recent: should be less than `trigger_at` (5)",
        ),
        (["time_budget: soon"], "4:7", "time_budget: should be a time such as `45s`"),
        (["on_missing_fields: finalise"], "4:7", "did you mean `finalize`?"),
        (["on_missing_fields: ask"], "4:7", 'should be one of "", finalize, await_clarification, resume'),
        (["max_tool_call: 3"], "4:7", "did you mean `max_tool_calls`?"),
    ],
)
def test_a_slip_in_a_policy_is_named_with_its_place(lines: list[str], place: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    inside = "".join(f"      {line}\n" for line in lines)
    file.write_text(f"agents:\n  main:\n    policy:\n{inside}")
    file.chmod(0o600)
    with pytest.raises(ConfigError) as refused:
        load_config(file, environ={"GOCLAW_STATE_DIR": str(tmp_path / "state")})
    (line,) = refused.value.problems
    assert f":{place}: agents.main." in line
    assert problem in line


def test_kinds_have_names_that_can_be_typed() -> None:
    kinds = Config.model_validate({"agents": {"kinds": {"code-reader": {"model": "demo", "tools": "read,tag:web"}}}})
    assert kinds.agents.kinds["code-reader"].tools == ("read", "tag:web")
    for name in ("main", "Two Words", ""):
        with pytest.raises(ValidationError, match="should have names of small letters"):
            Config.model_validate({"agents": {"kinds": {name: {}}}})


def test_durations_are_read_from_the_environment(tmp_path: Path) -> None:
    environ = {"GOCLAW_STATE_DIR": str(tmp_path), "GOCLAW_AGENTS__MAIN__POLICY__TIME_BUDGET": "1h30m"}
    assert load_config(environ=environ).config.agents.main.policy.time_budget == 5400
