"""Bugs in what leaves: requests, secrets, texts of strangers; and in the configuration and the audit log."""

from tests.mutations.bug import Bug, Patch, bug

_GUARD = "goclaw/net/guard.py"
_ADDRESSES = "goclaw/net/addresses.py"

BUGS: list[Bug] = [
    bug(
        "only addresses are checked, not what a name leads to",
        "CVE-2026-26322: SSRF by a URL of a tool",
        _GUARD,
        "        for text in found:\n            self._check(name, text, port)",
        "        for text in found if literal else ():\n            self._check(name, text, port)",
        "tests/net/test_guard.py::test_a_name_that_leads_inside_is_refused_whole",
    ),
    Bug(
        "redirects are not checked",
        "CVE-2026-35629: SSRF behind a redirect",
        (
            Patch(_GUARD, "middlewares=(stay_on_loopback, gate.check_request),", "middlewares=(stay_on_loopback,),"),
            Patch(_GUARD, "        if (str(target[0]), int(target[1])) not in self._checked:", "        if False:"),
        ),
        ("tests/net/test_guard.py::test_a_redirect_inside_is_refused",),
    ),
    Bug(
        "a name is resolved once for the check and once more for the connection",
        "class ssrf: DNS rebinding",
        (
            Patch(
                _GUARD,
                "            for text in await self._addresses(host, port)\n        ]",
                "            for text in await self._addresses(host, port) and await self._guard.resolve(host, port)\n"
                "        ]",
            ),
            Patch(_GUARD, "        if (str(target[0]), int(target[1])) not in self._checked:", "        if False:"),
        ),
        (
            "tests/net/test_guard.py::test_a_name_that_changes_its_mind_gains_nothing",
            "tests/net/test_guard.py::test_each_request_asks_for_the_name_once_and_goes_where_that_answer_says",
        ),
    ),
    bug(
        "a connection goes to the name instead of to the checked address",
        "class ssrf: DNS rebinding",
        _GUARD,
        "return await asyncio.open_connection(address, port)",
        "return await asyncio.open_connection(host, port)",
        "tests/net/test_guard.py::test_a_connection_goes_to_the_address_that_was_checked_and_not_to_the_name",
    ),
    bug(
        "an IPv6 address that stands for an IPv4 one is not looked into",
        "class ssrf: mapped and translated addresses",
        "goclaw/net/addresses.py",
        "    forms: list[Address] = list(_embedded(address))",
        "    forms: list[Address] = []",
        "tests/net/test_addresses.py",
    ),
    bug(
        "unusual ways of writing an address pass as names",
        "class ssrf: decimal, octal, hexadecimal",
        _GUARD,
        'if literal is None and (name.replace(".", "").isdigit() or name.startswith("0x")):',
        "if False:",
        "tests/net/test_guard.py::test_an_address_that_is_written_unusually_is_no_name_to_ask_for",
    ),
    bug(
        "proxies of the environment are used",
        "Synapse #9812: a proxy goes around the list",
        _GUARD,
        "            trust_env=False,",
        "            trust_env=True,",
        "tests/net/test_guard.py::test_a_proxy_of_the_environment_is_not_used",
    ),
    Bug(
        "the link-local network is public",
        "class ssrf: 169.254.169.254",
        (
            Patch(
                _ADDRESSES,
                '            if getattr(form, f"is_{kind}"):',
                '            if kind not in ("link_local", "private") and getattr(form, f"is_{kind}"):',
            ),
            Patch(_ADDRESSES, "        if form.is_reserved or not form.is_global or any(", "        if any("),
        ),
        ("tests/net/test_addresses.py",),
    ),
    bug(
        "results of tools show secrets",
        "class secrets: a key in the output of a command",
        "goclaw/toolkit/dispatcher.py",
        "mask(_text(await self._run(call, scope, watch)))",
        "_text(await self._run(call, scope, watch))",
        "tests/toolkit/test_dispatcher.py::test_secrets_are_masked_in_results_and_errors",
    ),
    bug(
        "errors of tools show secrets",
        "class secrets: a key in an error",
        "goclaw/toolkit/dispatcher.py",
        'return json.dumps({"error": mask(message)}, ensure_ascii=False)',
        'return json.dumps({"error": message}, ensure_ascii=False)',
        "tests/toolkit/test_dispatcher.py::test_secrets_are_masked_in_results_and_errors",
    ),
    bug(
        "known secrets are not masked, only shapes",
        "class secrets: a password looks like any word",
        "goclaw/redact.py",
        "    _known.add(secret)\n",
        "    return\n",
        "tests/test_redact.py",
    ),
    bug(
        "the audit log masks what is left after the cut",
        "class secrets: half a secret is none to the mask",
        "goclaw/audit.py",
        '    text = revealed(mask(text)).replace("\\n", "\\\\n")',
        '    text = revealed(mask(text[:longest])).replace("\\n", "\\\\n")',
        "tests/test_audit.py::test_secrets_are_masked_before_they_are_cut_and_nothing_steers_a_terminal",
    ),
    bug(
        "refused calls leave no entry",
        "class audit: who tried is not known",
        "goclaw/toolkit/dispatcher.py",
        '        decision = self._access.authorize(scope.actor, "tool.use", call.name)\n        known',
        '        decision = self._access.authorize(scope.actor, "tool.use", call.name)\n'
        "        if not decision.allowed:\n            return\n        known",
        "tests/test_audit.py",
    ),
    bug(
        "the audit log is for everybody to read",
        "class files: the mode of a new file",
        "goclaw/audit.py",
        "os.open(self._path, _FLAGS, 0o600)",
        "os.open(self._path, _FLAGS, 0o644)",
        "tests/test_audit.py",
    ),
    bug(
        "text from outside can end its own marks",
        "class injection: a boundary that can be forged",
        "goclaw/context/fences.py",
        '    return _MARK.sub("<\\u200b", text) if "<" in text else text',
        "    return text",
        "tests/context/test_fences.py",
    ),
    bug(
        "results of tools reach the model without marks",
        "class injection: a page speaks as the user",
        "goclaw/context/fences.py",
        "            case ToolResult(foreign=True):",
        "            case ToolResult(foreign=True) if False:",
        "tests/context/test_fences.py",
        "tests/adversarial/test_injection.py",
    ),
    bug(
        "an unknown key of the configuration is passed over",
        "class config: a misspelt rule protects nobody",
        "goclaw/config/schema.py",
        'model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)',
        'model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)',
        "tests/adversarial/test_broken.py",
    ),
    bug(
        "who may do what can lie where the agent writes",
        "CVE-2026-25593: the agent changes its own rules",
        "goclaw/config/load.py",
        "    if lies_inside(config.users_path, config.workspace_path):",
        "    if False:",
        "tests/adversarial/test_config.py::test_who_may_do_what_cannot_lie_where_the_agent_writes",
    ),
    bug(
        "a backup is for everybody to read",
        "class files: the mode of a new file",
        "goclaw/backup/pack.py",
        "os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)",
        "os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)",
        "tests/backup/test_collect.py",
    ),
    bug(
        "the state folder is for everybody to look into",
        "class files: the mode of a new folder",
        "goclaw/state.py",
        "    folder.mkdir(mode=0o700, parents=True, exist_ok=True)\n    mode",
        "    folder.mkdir(mode=0o755, parents=True, exist_ok=True)\n    mode = 0o700\n    return\n    mode",
        "tests/test_state.py::test_the_folder_is_private",
    ),
]
