"""Planted bugs in the reading of documents."""

from tests.mutations.bug import Bug, bug

BUGS: list[Bug] = [
    bug(
        "a document is read without containment where commands have none",
        "class sandbox: an operator's choice for commands taken for one about files of strangers",
        "goclaw/extensions/documents/reading.py",
        "    if given.tier not in (OFF, NONE):",
        "    if given.tier != NONE:",
        "tests/extensions/documents/test_reading.py",
    ),
    bug(
        "a document declares XML entities",
        "CVE-2014-3529 (Apache POI), class XXE and billion laughs",
        "goclaw/extensions/documents/formats/markup.py",
        "    parser.EntityDeclHandler = refuse\n",
        "",
        "tests/adversarial/test_documents.py",
    ),
    bug(
        "a file in an archive unpacks without a bound",
        "class zip bomb",
        "goclaw/extensions/documents/formats/markup.py",
        "                    if left < 0:",
        "                    if left < -(1 << 40):",
        "tests/adversarial/test_documents.py",
    ),
    bug(
        "the words of a document count as a person's own",
        "class injection: a PDF that somebody sent",
        "goclaw/tools/builtin/read.py",
        "    ctx.set_source(SourceKind.DOCUMENT)  # others wrote it, or may have\n",
        "",
        "tests/extensions/documents/test_reading.py",
    ),
    bug(
        "the words of an invitation in a folder of documents count as notes",
        "GoClaw before 2026-12: the ending of a file said who wrote it",
        "goclaw/memory/file_indexer.py",
        "    return is_searched(path) or any(Pattern(each).matches(names) for each in wanted)",
        "    return is_searched(path)",
        "tests/tools/builtin/test_memory_files_search.py::"
        "test_texts_in_a_folder_of_documents_count_as_the_words_of_others",
    ),
    bug(
        "the answer of a reader that is taken over has no bound",
        "class trust: the process that holds the attacker's file is believed",
        "goclaw/extensions/documents/reading.py",
        "mask_known(told.text[:characters])",
        "mask_known(told.text)",
        "tests/extensions/documents/test_reading.py",
    ),
    bug(
        "the title of a document reaches the model as words of the person who sends it",
        "class injection: GoClaw before 2026-12 put notes about an upload outside of the marks",
        "goclaw/conversation/turns/attachments.py",
        '[(f"[{head}: {place}{counted}]", "")',
        '[(f"[{head}: {place}; {document.head}]", "")',
        "tests/conversation/turns/test_attachments.py",
    ),
    bug(
        "words of a document begin lines of their own in what describes it",
        "class injection: line breaks in a title or in the name of a sheet",
        "goclaw/extensions/documents/reading.py",
        '_BREAKS.sub(" ", text[:_MAX_LINE])',
        "text[:_MAX_LINE]",
        "tests/extensions/documents/test_reading.py",
    ),
    bug(
        "one slow document takes the time of all",
        "GoClaw before 2026-12: documents after a slow one were never searched",
        "goclaw/tools/builtin/document_search.py",
        "scans=False, seconds=seconds)",
        "scans=False)",
        "tests/tools/builtin/test_document_search.py",
    ),
    bug(
        "a PDF that a provider refuses is sent again with every message",
        "CC: a PDF of more than 100 pages breaks all later requests of its session",
        "goclaw/llm/media.py",
        "            self._refused |= shown\n",
        "            pass\n",
        "tests/llm/test_media.py::test_a_document_that_a_server_refuses_goes_as_text_from_then_on",
    ),
    bug(
        "a document is paid for as a file and as text",
        "class context: the window counts one of them",
        "goclaw/llm/media.py",
        "text[: piece.start] + AS_A_FILE + text[piece.end :]",
        "text",
        "tests/llm/test_media.py::test_each_protocol_has_a_form_for_documents_and_none_pays_for_the_text_too",
    ),
    bug(
        "a model reads in a file what a hook has taken out of the message",
        "class trust: hooks judge the text alone",
        "goclaw/conversation/turns/user_message.py",
        "if not (image.pages and self.judges_messages))",
        "if image)",
        "tests/conversation/turns/test_attachments_documents.py::"
        "test_where_hooks_judge_messages_they_judge_all_that_the_model_reads",
    ),
    bug(
        "a document stays in the window of a model that takes none",
        "class context: a change of model fills the window with pages that are not sent",
        "goclaw/conversation/turns/agent_services.py",
        "        session.window.show_documents(model)\n",
        "",
        "tests/conversation/turns/test_attachments_documents.py::"
        "test_a_chat_goes_on_with_a_model_that_takes_none_and_back",
    ),
]
