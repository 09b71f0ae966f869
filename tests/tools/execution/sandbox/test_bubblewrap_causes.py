"""What a machine says about namespaces becomes a sentence with a remedy."""

from pathlib import Path

import pytest

from goclaw.tools.execution.sandbox.bubblewrap import namespace_refusal

SWITCHES = "proc/sys/kernel"


@pytest.mark.parametrize(
    ("file", "value", "plain", "root"),
    [
        (
            "proc/sys/user/max_user_namespaces",
            "0",
            "sysctl user.max_user_namespaces",
            "sysctl user.max_user_namespaces",
        ),
        ("proc/sys/user/max_user_namespaces", "15000", "", ""),
        (f"{SWITCHES}/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1", ""),
        (f"{SWITCHES}/unprivileged_userns_clone", "1", "", ""),
        (f"{SWITCHES}/apparmor_restrict_unprivileged_userns", "1", "apparmor_parser -r /etc/apparmor.d/bwrap", ""),
        (f"{SWITCHES}/apparmor_restrict_unprivileged_userns", "0", "", ""),
        (".dockerenv", "", "use the broker, which works in containers", "use the broker, which works in containers"),
        (
            "run/.containerenv",
            "",
            "use the broker, which works in containers",
            "use the broker, which works in containers",
        ),
    ],
)
def test_each_switch_is_named_with_its_remedy(file: str, value: str, plain: str, root: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(f"{value}\n")

    for privileged, words in ((False, plain), (True, root)):
        said = namespace_refusal(privileged=privileged, root=tmp_path)
        assert words in said
        assert bool(said) == bool(words)


def test_a_machine_that_gives_no_hint_gets_no_guess(tmp_path: Path) -> None:
    assert namespace_refusal(privileged=False, root=tmp_path) == ""
