"""Bugs in plugins: who may write them, what they may change, and what a kill or an upgrade leaves of them."""

from tests.mutations.bug import Bug, bug

_LOADING = "goclaw/tools/toolkit/plugin_loading.py"
_FILES = "goclaw/tools/toolkit/plugin_files.py"
_INSTALLING = "goclaw/program/ops/plugins/installing.py"
_FOLDER = "goclaw/common/core/plugin_folder.py"

BUGS: list[Bug] = [
    bug(
        "a plugin file that the group may write is executed",
        "class permission: code of others in the daemon",
        _LOADING,
        "found.st_mode & 0o022",
        "found.st_mode & 0o002",
        "tests/tools/toolkit/test_plugin_loading.py::test_a_file_that_others_may_change_is_refused_with_the_remedy",
    ),
    bug(
        "a plugin file in a person's own workspace is executed",
        "class permission: the agent writes code of the daemon",
        _LOADING,
        "workspaces += [place.root for place",
        "workspaces += [config.workspace_path for place",
        "tests/tools/toolkit/test_plugin_loading.py::test_a_file_that_the_agent_may_change_is_refused",
    ),
    bug(
        "a fault of a plugin file takes its tools away",
        "class plugins: a typing error while the daemon runs",
        _FILES,
        '        stays = "; its last valid',
        '        self._drop(file.title)\n        stays = "; its last valid',
        "tests/tools/toolkit/test_plugin_files.py::test_a_fault_leaves_the_version_before_in_place_and_has_its_line",
    ),
    bug(
        "a plugin file is loaded while an editor writes it",
        "class plugins: half a file",
        _FILES,
        "        if not settled or version == self._loaded:",
        "        if version == self._loaded:",
        "tests/tools/toolkit/test_plugin_files.py::test_half_a_file_is_not_loaded",
    ),
    bug(
        "plugins of another lock are used as they are",
        "class plugins: an upgrade under the feet of a package",
        _FOLDER,
        "        if attempt.stamp != stamp_of_host():",
        "        if not attempt.stamp:",
        "tests/program/ops/plugins/test_installing.py::test_a_new_lock_has_plugins_installed_again_and_those_that_do_not_fit_left_out",
    ),
    bug(
        "a folder of plugins is removed under a running daemon",
        "class plugins: an import that comes late",
        _INSTALLING,
        "        return  # a daemon goes on with it until it is restarted",
        "        shutil.rmtree(folder, ignore_errors=True)",
        "tests/program/ops/plugins/test_installing.py::test_a_folder_that_a_process_uses_stays_until_it_has_ended",
    ),
    bug(
        "an MCP server in a plugin file vanishes without a word",
        "issue 47: what works in a package did not work in a file",
        _LOADING,
        "        if isinstance(value, AgentPart | ToolsetPart | ServerPart):",
        "        if isinstance(value, AgentPart | ToolsetPart):",
        "tests/tools/toolkit/test_plugin_files.py::test_an_mcp_server_of_a_file_offers_what_that_of_a_package_does",
    ),
    bug(
        "a guard in a plugin file is gone while the file is broken",
        "class hook: what fails open",
        "goclaw/tools/toolkit/parts.py",
        "                    hooks[file_title(path)] = str(error)",
        "                    pass",
        "tests/tools/toolkit/test_plugin_files.py::test_a_broken_file_that_may_have_had_a_hook_forbids_every_call",
    ),
    bug(
        "a default that no call could give is found at a call",
        "issue 47: goclaw declare check passed what failed later",
        "goclaw/tools/toolkit/base.py",
        "        refuse_faults(arguments, spec.name, spec.schema)\n",
        "",
        "tests/tools/toolkit/test_plugin_loading.py::test_a_check_finds_what_would_fail_at_a_call",
    ),
    bug(
        "a model may give what code fills in",
        "class declaration: an argument that is not the model's",
        "goclaw/tools/toolkit/binding.py",
        "    parameters = [each for each in parameters if each.name not in fills]\n",
        "",
        "tests/tools/declare/test_tools_keywords.py::test_arguments_that_code_fills_in_are_seen_by_no_model",
    ),
    bug(
        "an exported tool is passed on to one that its agent lacks",
        "issue 47: passthrough to an unknown tool",
        "goclaw/tools/declare/agents.py",
        "        selection += [each for word in exported for each in word.forwards if each not in selection]\n",
        "        pass\n",
        "tests/tools/declare/test_agents.py::test_passthrough_brings_its_tool_along_for_the_exporting_agent",
    ),
]
