"""Which variables a call may give its command."""

import pytest

from goclaw.errors import InvalidInput
from goclaw.tools.builtin.exec import MAX_ENV_BYTES, MAX_VARIABLES, checked_variables


@pytest.mark.parametrize(
    "names",
    [
        "LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT PATH CDPATH BASH_ENV ENV SHELLOPTS BASHOPTS IFS PS4 PROMPT_COMMAND",
        "BASH_FUNC_ls PYTHONPATH PYTHONSTARTUP PYTHONHOME PYTHONINSPECT PYTHONBREAKPOINT PYTHONWARNINGS PERL5LIB",
        "PERL5OPT RUBYOPT RUBYLIB NODE_OPTIONS NODE_PATH npm_config_prefix NPM_CONFIG_SCRIPT_SHELL LUA_INIT PHPRC",
        "JAVA_TOOL_OPTIONS _JAVA_OPTIONS CLASSPATH GIT_SSH GIT_SSH_COMMAND GIT_EXEC_PATH GIT_PAGER GIT_EDITOR GIT_DIR",
        "GIT_CONFIG_COUNT GIT_EXTERNAL_DIFF GIT_ASKPASS PAGER MANPAGER EDITOR HOME SHELL ZDOTDIR XDG_CONFIG_HOME",
        "MAKEFLAGS MAKEFILES LESSOPEN BROWSER GCONV_PATH LOCPATH SSH_ASKPASS SSH_AUTH_SOCK RUSTC_WRAPPER CARGO_HOME",
        "GOFLAGS OPENSSL_CONF GLIBC_TUNABLES",
    ],
)
def test_a_variable_that_changes_what_runs_is_refused(names: str) -> None:
    for name in names.split():
        with pytest.raises(InvalidInput, match=rf'^field "env": {name} may not be set, because it changes which prog'):
            checked_variables({"FINE": "x", name: "x"})


@pytest.mark.parametrize(
    "names",
    [
        "NO_COLOR CI DEBUG TZ LANG LC_ALL TERM COLUMNS PORT DATABASE_URL NODE_ENV RUST_LOG FOO_PATH CC _x X1",
        "PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL",
    ],
)
def test_a_variable_that_is_only_read_passes(names: str) -> None:
    env = dict.fromkeys(names.split(), "any = value\nat all")
    assert checked_variables(env) == env


@pytest.mark.parametrize("name", ["", "1A", "A B", "A=B", "a-b", "BASH_FUNC_ls%%", "Ä", "A\n", "A\0", "x" * 129])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=r'^field "env": expected names of letters, digits and _'):
        checked_variables({name: "x"})


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (
            {f"A{number}": "x" for number in range(MAX_VARIABLES + 1)},
            f"at most {MAX_VARIABLES} variables, got {MAX_VARIABLES + 1}",
        ),
        ({"A": "x" * MAX_ENV_BYTES}, f"at most {MAX_ENV_BYTES} bytes in all"),
        ({"A": "ä" * (MAX_ENV_BYTES // 2)}, f"at most {MAX_ENV_BYTES} bytes in all"),
        ({"A": "a\0b"}, 'field "env.A": expected text without NUL characters'),
        ({"A": "\ud800"}, 'field "env.A": expected Unicode text'),
    ],
)
def test_variables_are_bounded_and_are_text(env: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        checked_variables(env)
    assert words in str(caught.value)
