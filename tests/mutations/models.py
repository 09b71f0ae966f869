"""Bugs in what is said of models: whether they answer, what they hold, what they cost."""

from tests.mutations.bug import Bug, bug

BUGS: list[Bug] = [
    bug(
        "the doctor finds a model fine that it never asked",
        "class doctor: a dead Ollama gets a ✓",
        "goclaw/doctor/model.py",
        "        said = await ping(model, max_output=MAX_OUTPUT, seconds=ASK_SECONDS)\n",
        '        said = ""\n',
        "tests/doctor/test_model.py::test_a_dead_ollama_is_a_problem_with_what_helps",
    ),
    bug(
        "the doctor finds a window fine that prompt and tools fill",
        "OC: a 4k model never answers, and every check is green",
        "goclaw/context/budget.py",
        "return self.overhead + self.reserve < self.window",
        "return self.reserve < self.window",
        "tests/doctor/test_model.py::test_a_window_that_prompt_and_tools_fill_is_a_problem_with_what_uses_it",
    ),
    bug(
        "the doctor asks although it was told not to",
        "class doctor: a check that costs money unasked",
        "goclaw/doctor/model.py",
        "        if offline:\n",
        "        if False:\n",
        "tests/doctor/test_model.py::test_offline_asks_nobody",
    ),
    bug(
        "setup forgets where the Ollama is that it found",
        "class setup: OLLAMA_HOST of a shell is not the service's",
        "goclaw/cli/setup_steps/writing.py",
        "    if answers.ollama:\n",
        "    if False:\n",
        "tests/cli/setup_steps/test_writing.py::test_an_ollama_elsewhere_is_kept_although_no_model_was_named",
    ),
    bug(
        "the change of one key takes the comments below it along",
        "class config: a program rewrites what a person wrote",
        "goclaw/config/changing.py",
        "    return int(node.end_mark.index)\n",
        "    return int(node.end_mark.index) + 1\n",
        "tests/config/test_changing.py",
    ),
    bug(
        "goclaw model keeps no file as it was",
        "class config: a program rewrites what a person wrote",
        "goclaw/config/changing.py",
        "        if kept:\n",
        "        if False:\n",
        "tests/cli/test_model.py::test_the_main_model_changes_and_every_comment_stays",
    ),
    bug(
        "goclaw model takes the first of several models",
        "class setup: a model that nobody chose",
        "goclaw/cli/model.py",
        "        case [spec]:\n",
        "        case [spec, *_]:\n",
        "tests/cli/test_model.py::test_what_fits_no_model_or_several_changes_nothing",
    ),
    bug(
        "an answer of a local model has an unknown price",
        "class cost: unknown dollars where nobody is paid",
        "goclaw/llm/open.py",
        "    if is_free(spec, config):\n",
        "    if False:\n",
        "tests/llm/test_open.py::test_what_runs_on_ones_own_machine_costs_nothing_and_the_rest_is_not_guessed",
    ),
    bug(
        "whether it works at all stands somewhere in the middle of the status",
        "class status: the answer to the first question comes late",
        "goclaw/sessions/status.py",
        "                *self._first_lines(),\n",
        "                self._model_line(),\n",
        "tests/commands/test_status.py::test_our_block_begins_with_daemon_model_and_telegram",
    ),
]
