"""Bugs in what the web page shows, and in the files that it sends and reads."""

from tests.mutations.bug import Bug, bug

_RENDERING = "goclaw/gateway/servers/web/rendering.py"
_LIVE = "goclaw/gateway/servers/web/live.py"
_PRESENTING = "goclaw/gateway/servers/web/presenting.py"
_FILES = "goclaw/gateway/servers/api/files.py"
_UPLOADS = "goclaw/durable/store/uploads.py"
_OF_LIVE = "tests/gateway/servers/web/test_live.py"
_OF_RENDERING = "tests/gateway/servers/web/test_rendering.py"
_OF_FILES = "tests/gateway/servers/api/test_files.py"

BUGS: list[Bug] = [
    bug(
        "the page lets a call be allowed whose beginning was never on the screen",
        "class approval: a person agrees to what was not shown",
        "goclaw/clients/web_ui/questions.js",
        "(button.needsAll && !this.item.isBegun)",
        "false",
        "tests/clients/web_ui/test_conversation.py::"
        "test_a_call_that_is_higher_than_the_screen_is_allowed_when_its_beginning_was_seen_too",
    ),
    bug(
        "names of files are links to foreign sites",
        "README.md ends like a domain of Moldova",
        "goclaw/common/core/markdown.py",
        '    linkify.set({"fuzzy_link": False})\n',
        "",
        "tests/common/core/test_markdown.py::test_only_what_has_a_scheme_or_www_is_a_link",
        f"{_OF_RENDERING}::test_names_of_files_are_no_links",
    ),
    bug(
        "a person's message is rendered",
        "what was typed with stars is shown without them",
        _PRESENTING,
        'if row["message"]["role"] == "assistant" else ""',
        'if row["message"]["role"] in ("user", "assistant") else ""',
        f"{_OF_LIVE}::test_messages_come_with_their_html",
    ),
    bug(
        "code in Hebrew stands the wrong way round",
        "a direction that is inherited",
        "goclaw/clients/web_ui/app.css",
        ".prose :is(.code, pre, code) { direction: ltr;",
        ".prose :is(.code, pre, code) {",
        "tests/clients/web_ui/test_conversation.py::test_code_in_right_to_left_text_goes_from_left_to_right",
    ),
    bug(
        "another page opens the page's WebSocket",
        "cross-site WebSocket hijacking",
        _LIVE,
        "        if not self._cookies.is_own_origin(request):",
        "        if False:",
        f"{_OF_LIVE}::test_no_page_comes_in_without_cookie_and_own_origin",
    ),
    bug(
        "links go wherever they say",
        "relative and foreign schemes in a page with a cookie",
        _RENDERING,
        '        if not _is_web(str(link.attrs.get("href", ""))):\n            return ""',
        '        if False:\n            return ""',
        f"{_OF_RENDERING}::test_an_address_that_is_not_followed_is_shown",
        _OF_RENDERING,
    ),
    bug(
        "what is nested too deep is dropped",
        "markdown-it ends at its limit of nesting without a word",
        _RENDERING,
        "    if max(token.level for token in tokens) >= MAX_NESTING - 1 or _depth(tokens) > MAX_LEVELS:",
        "    if False:",
        f"{_OF_RENDERING}::test_what_is_nested_too_deep_is_shown_as_it_was_written",
    ),
    bug(
        "a page that goes on begins its text anew",
        "the text before a break is lost from the rendered answer",
        _PRESENTING,
        "known = text_before(self._missed, frame.now.text) if frame.goes_on else frame.now.text",
        'known = "" if frame.goes_on else frame.now.text',
        f"{_OF_LIVE}::test_a_page_that_goes_on_gets_what_it_shows_and_then_what_it_missed",
    ),
    bug(
        "lines end where Python says so",
        "str.splitlines knows ten line ends more than Markdown",
        "goclaw/common/core/markdown.py",
        '_LINE_END = re.compile(r"\\r\\n?|\\n")',
        '_LINE_END = re.compile(r"\\r\\n?|\\n|\\x0b|\\x0c|\\u2028")',
        "tests/common/core/test_markdown.py::test_finished_blocks_and_the_open_end_are_those_of_the_whole_text",
    ),
    bug(
        "another person's file goes into a message",
        "a file's id as the only right to it",
        _UPLOADS,
        "        if upload is None or (upload.owner, upload.session) != (owner, session) or self._is_over(upload):",
        "        if upload is None or self._is_over(upload):",
        f"{_OF_FILES}::test_another_persons_file_is_none",
    ),
    bug(
        "any file that begins like a picture is shown to models and browsers",
        "polyglots; a damaged picture ends a conversation at its provider",
        _FILES,
        "    if mime is not None and not fault_of(data, mime):",
        "    if mime is not None:",
        f"{_OF_FILES}::test_a_file_is_what_its_bytes_are",
        _OF_FILES,
    ),
    bug(
        "a picture of one session is read through another",
        "a blob's key as the only right to it",
        _FILES,
        "    name = await call.ports.gateway.media_name(session, asked.blob)",
        '    name = ""',
        f"{_OF_FILES}::test_a_picture_is_shown_and_everything_else_is_a_download",
    ),
    bug(
        "any file of the workspace is a memory file",
        "a path of the request is read as it is",
        "goclaw/memory/memory_queries.py",
        "        if path not in {file.path for file in await self.memory.files(home, actor.key)}:",
        "        if False:",
        "tests/memory/test_memory_queries.py::test_a_file_is_read_by_those_for_whom_it_is_listed_and_no_other",
    ),
]
