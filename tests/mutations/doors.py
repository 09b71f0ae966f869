"""Bugs in the sockets, the listener, the webhook and the tokens."""

from tests.mutations.bug import Bug, bug

_SERVING = "goclaw/servers/serving.py"
_TOKENS = "goclaw/tokens.py"
_HTTP = "goclaw/servers/listener.py"
_WEBHOOK = "goclaw/channels/telegram/webhook.py"

BUGS: list[Bug] = [
    bug(
        "any user of the machine may use the socket",
        "CVE-2026-25593: an unauthenticated local socket",
        "goclaw/servers/socket.py",
        "if _peer_uid(request) != os.getuid():",
        "if _peer_uid(request) < 0:",
        "tests/servers/test_socket.py::test_another_user_is_refused",
    ),
    bug(
        "a token lets in as the owner",
        "CVE-2026-44118, GHSA-rqpp: rights by the way in",
        "goclaw/servers/door.py",
        "actor = Actor(token.user, ENTRY, name=token.user)",
        "actor = Actor(token.user, ENTRY, owner=True, name=token.user)",
        "tests/servers/test_door.py::test_rights_that_a_client_declares_are_not_heard",
        "tests/servers/test_door.py",
    ),
    bug(
        "the beginning of a token is enough",
        "CVE-2026-28472: a check of presence instead of value",
        _TOKENS,
        'return hashlib.sha256(secret.encode(errors="replace")).hexdigest()',
        'return hashlib.sha256(secret[:12].encode(errors="replace")).hexdigest()',
        "tests/test_tokens.py::test_what_is_not_exactly_a_token_is_none",
    ),
    bug(
        "an expired token is good",
        "class http: a token for ever",
        _TOKENS,
        'return found if found and not self._is_over(self._tokens[found]) else ""',
        "return found",
        "tests/test_tokens.py::test_a_token_ends_at_its_time",
    ),
    bug(
        "tokens that others can read or change are good",
        "class config: a file that anybody writes",
        _TOKENS,
        "        if stat.S_IMODE(found.st_mode) & 0o077:",
        "        if False:",
        "tests/test_tokens.py::test_a_file_that_others_can_read_or_change_lets_nobody_in",
    ),
    bug(
        "a revoked token keeps its connections",
        "2026.3.28 batch, GHSA-xmxx: revoked tokens keep a live connection",
        _SERVING,
        "        reason = visit.visitor.objection()\n",
        '        reason = ""\n',
        "tests/servers/test_door.py::test_a_revoked_token_ends_what_streams",
    ),
    bug(
        "rights that are taken away do not end what streams",
        "class http: rights are re-read at use",
        _SERVING,
        "        except AccessDenied as error:\n            reason = reason or str(error)",
        "        except AccessDenied:\n            return False",
        "tests/servers/test_socket.py::test_a_terminal_whose_right_is_taken_away_hears_no_more",
        "tests/servers/test_door.py::test_who_is_taken_out_of_users_json_is_cut_off_and_stays_out",
    ),
    bug(
        "what is for admins is told to every terminal",
        "class http: what is an admin's to know",
        _SERVING,
        "and event.for_admins and not self._gateway.oversees(visit.actor)",
        "and False",
        "tests/servers/test_door.py::test_the_daemons_faults_are_told_to_admins_alone",
    ),
    bug(
        "pages of strangers may call",
        "CVE-2026-25253: a page reaches the daemon of whoever opens it",
        _HTTP,
        'if any(origin.lower() not in self._place.origins for origin in request.headers.getall("Origin", [])):',
        "if False:",
        "tests/servers/test_http.py::test_a_page_may_call_only_if_it_is_named",
    ),
    bug(
        "any Host is ours",
        "CVE-2026-25253: DNS rebinding",
        _HTTP,
        "if len(named) != 1 or not names_us(named[0], self._place.host, self._place.names):",
        "if len(named) != 1:",
        "tests/servers/test_http.py::test_a_foreign_host_is_refused",
    ),
    bug(
        "a call without the webhook's secret is taken",
        "CVE-2026-44109: a missing key is accepted",
        _WEBHOOK,
        "        if not hmac.compare_digest(given.encode(",
        "        if given and not hmac.compare_digest(given.encode(",
        "tests/channels/telegram/test_webhook.py::test_nobody_gets_in_without_the_secret",
    ),
    bug(
        "the body is read before the secret is checked",
        "CVE-2026-32980: bodies of strangers are buffered",
        _WEBHOOK,
        '        given = request.headers.get(HEADER, "")\n',
        '        await request.read()\n        given = request.headers.get(HEADER, "")\n',
        "tests/channels/telegram/test_webhook.py::test_the_secret_is_looked_at_before_the_body_is_waited_for",
    ),
    bug(
        "an open port needs no credential",
        "CVE-2026-25187, nanobot: 0.0.0.0 without any check",
        "goclaw/config/listening.py",
        "and not is_loopback(config.http.host) and not any(credentials(config)):",
        "and not is_loopback(config.http.host) and False:",
        "tests/config/test_listening.py::test_beyond_this_machine_it_listens_only_with_a_credential",
    ),
]
