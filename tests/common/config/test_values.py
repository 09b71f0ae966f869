"""`tools.exec.env`: what every command would run first is refused, what steers programs is named as weak."""

import pytest
from pydantic import ValidationError

from goclaw.common.config.schema import Config


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "LD_AUDIT", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "PS4", "IFS"]
)
def test_a_variable_by_which_all_commands_run_something_else_is_refused(name: str) -> None:
    with pytest.raises(
        ValidationError, match=f"should not set {name}: it makes every command run another program first"
    ):
        Config.model_validate({"tools": {"exec": {"env": {name: "x"}}}})


@pytest.mark.parametrize("name", ["BASH_FUNC_ls%%", "A B", "A=B", "1A", ""])
def test_what_is_no_name_of_a_variable_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="should have names of letters"):
        Config.model_validate({"tools": {"exec": {"env": {name: "x"}}}})


@pytest.mark.parametrize("ports", [[0], [65_536], [-1], "http"])
def test_a_port_of_the_proxy_is_a_number_that_ports_have(ports: object) -> None:
    with pytest.raises(ValidationError):
        Config.model_validate({"tools": {"network": {"ports": ports}}})
    assert Config.model_validate({"tools": {"network": {"ports": "443,8443"}}}).tools.network.ports == (443, 8443)
