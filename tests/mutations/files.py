"""Bugs in the way to files."""

from tests.mutations.bug import Bug, Patch, bug

_WORKSPACE = "goclaw/workspace/workspace.py"
_BENEATH = "goclaw/workspace/openat2.py"
_REACH = "goclaw/workspace/path_resolver.py"
_PATHS = "goclaw/workspace/paths.py"
_ATOMIC = "goclaw/workspace/atomic.py"
_LOCKING = "goclaw/workspace/atomic.py"

BUGS: list[Bug] = [
    bug(
        "a named file that is too large has no match",
        "GoClaw before 2026-11: `search` of a large file said that nothing matches",
        "goclaw/tools/search.py",
        "        if stat.size > query.largest:",
        "        if False:",
        "tests/tools/test_search.py",
    ),
    bug(
        "files of a folder that are too large are passed over in silence",
        "GoClaw before 2026-11: nothing said that a file was not searched",
        "goclaw/tools/search.py",
        "        if self.skipped:",
        "        if False:",
        "tests/tools/test_search.py",
    ),
    bug(
        "files that nobody may see are counted among those that are too large",
        "class rights: a count tells of what is hidden",
        "goclaw/tools/search.py",
        "await self._ctx.workspace.visible(hits.oversized[:_MAX_SKIPPED], query.wanted)",
        "list(hits.oversized)",
        "tests/tools/test_search.py",
    ),
    bug(
        "of two processes that make one file at once the first loses what it wrote",
        "GoClaw before 2026-11: a file that was not there had neither version nor lock",
        _WORKSPACE,
        "new=unless_changed == ABSENT",
        "new=False",
        "tests/workspace/test_atomic_locking.py::test_a_file_that_came_while_another_was_to_be_made_stays",
    ),
    bug(
        "a file that another process keeps locked is waited for three times over",
        "GoClaw before 2026-11: values were written again after every error",
        _LOCKING,
        "        except FileChanged as error:\n",
        "        except ToolError as error:\n",
        "tests/workspace/test_atomic_locking.py::test_a_change_is_tried_anew_only_where_the_file_changed_and_not_for_ever",
    ),
    bug(
        "without Landlock a match is told at its line of all texts together",
        "class stream: places in the whole taken for places in a part",
        "goclaw/tools/ripgrep.py",
        "spots.append((line - lines_before[text], int(told[3])))",
        "spots.append((line, int(told[3])))",
        "tests/tools/test_search.py",
    ),
    bug(
        "a window behind the first block is one of another place",
        "class stream: what is behind the line feed is read twice",
        "goclaw/tools/lines.py",
        '            file.seek(len(block.split(b"\\n", left)[-1]) * -1, os.SEEK_CUR)',
        "            file.seek(0, os.SEEK_CUR)",
        "tests/tools/test_read.py",
    ),
    bug(
        "lines that nobody counted are said to be none",
        "class words: a bound passes for the end",
        "goclaw/tools/lines.py",
        "    is_all = bound == end\n",
        "    is_all = True\n",
        "tests/tools/test_read.py",
    ),
    bug(
        "between the look at a file and its change other processes change it",
        "GoClaw before 2026-11: three processes lost edits that were answered",
        _WORKSPACE,
        "        if self._locks is None or (place.found is None and not new):",
        "        if True:",
        "tests/workspace/test_atomic_locking.py",
    ),
    bug(
        "the lock of a file that somebody replaced meanwhile counts for the new one",
        "class race: a lock on an inode that is no longer there",
        _WORKSPACE,
        "            yield _inode_at(place) == inode",
        "            yield True",
        "tests/workspace/test_atomic_locking.py",
    ),
    bug(
        "a lock whose file went is held by two",
        "class race: flock on an unlinked file",
        _LOCKING,
        "            if _is_still(name, descriptor):",
        "            if True:",
        "tests/workspace/test_atomic_locking.py",
    ),
    bug(
        "a lock that cannot be had leaves its file open",
        "class leak: a state folder on a file system without flock",
        _LOCKING,
        "            except BaseException:\n                os.close(descriptor)\n",
        "            except BaseException:\n",
        "tests/workspace/test_atomic_locking.py",
    ),
    bug(
        "two versions of a file look the same within one tick of the clock",
        "class race: inode numbers are used again",
        _ATOMIC,
        "        os.utime(descriptor, ns=(mine.st_atime_ns, was.st_mtime_ns + 1))",
        "        pass",
        "tests/workspace/test_atomic_locking.py",
    ),
    bug(
        "a write waits for a lock without end",
        "class denial: a process that hangs with a lock",
        _LOCKING,
        "            if clock.monotonic() >= until:\n                raise _busy(path) from None",
        "            if False:\n                raise _busy(path) from None",
        "tests/workspace/test_atomic_locking.py",
    ),
    bug(
        "an edit fails because another one came between",
        "GoClaw before 2026-11: two who edit one file side by side",
        "goclaw/tools/file_changes.py",
        '    if ctx.config.tools.write.review or ctx.agreed_by("tool.use", tool):',
        "    if True:",
        "tests/tools/test_edit.py",
    ),
    bug(
        "an edit that was approved is made in another content",
        "class approval: what was shown is not what is done",
        "goclaw/tools/file_changes.py",
        '    if ctx.config.tools.write.review or ctx.agreed_by("tool.use", tool):',
        "    if False:",
        "tests/tools/test_edit.py",
    ),
    bug(
        "a sibling whose name begins like the workspace counts as inside",
        "nanobot #472: path check by startswith",
        _PATHS,
        'if path.startswith(root.rstrip("/") + "/"):',
        'if path.startswith(root.rstrip("/")):',
        "tests/test_workspace.py::test_a_path_that_leaves_is_refused",
        "tests/adversarial/test_path.py::test_no_name_leads_out_for_reading_writing_or_editing",
    ),
    bug(
        "symbolic links may leave the workspace",
        "openclaw: symlink escape (GHSA-qcc4, GHSA-cfvj)",
        _BENEATH,
        "return _OpenHow(flags, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS |",
        "return _OpenHow(flags, 0, _RESOLVE_NO_MAGICLINKS |",
        "tests/test_workspace.py::test_a_symbolic_link_that_leaves_is_refused",
        "tests/test_workspace.py::test_a_linked_folder_that_leaves_is_refused",
    ),
    bug(
        "the path is resolved, checked, and opened afterwards",
        "CVE-2026-44113: TOCTOU symlink swap",
        _BENEATH,
        "    if by_walk:\n        return _walk(",
        "    whole = os.path.realpath(f'/proc/self/fd/{folder}/{path or \".\"}')\n"
        "    root = os.path.realpath(f'/proc/self/fd/{folder}')\n"
        "    if whole != root and not whole.startswith(f'{root}/'):\n"
        "        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)\n"
        "    if not flags & os.O_NOFOLLOW:\n"
        "        return os.open(whole, flags | os.O_CLOEXEC)\n"
        "    if by_walk:\n        return _walk(",
        "tests/test_workspace.py::test_no_race_leads_outside",
        "tests/workspace/test_path_resolver_races.py",
    ),
    bug(
        "the walk for old kernels follows links",
        "CVE-2026-44113 on a kernel without openat2",
        _BENEATH,
        "found = os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)",
        "found = os.open(name, flags, dir_fd=folder)",
        "tests/test_workspace.py::test_a_linked_folder_that_leaves_is_refused",
        "tests/test_workspace.py::test_no_race_leads_outside",
    ),
    bug(
        "the daemon's files are denied by name, not by inode",
        "goclaw (Go): a deny list of base names, beaten by a hard link",
        _REACH,
        "        if inode in workspace_root.denied.everything(workspace_root.inode):\n            return errno.EACCES",
        "        if False:\n            return errno.EACCES",
        "tests/test_workspace.py::test_a_state_file_is_refused_under_every_name",
        "tests/adversarial/test_path.py::test_a_hard_link_to_a_file_of_the_daemon_is_still_that_file",
    ),
    bug(
        "a file of the daemon that does not exist yet may be made",
        "NanoClaw CVE-2026-7875: writing where the daemon looks",
        _REACH,
        "        if making and workspace_root.denied.is_name(folder, name):",
        "        if False:",
        "tests/test_workspace.py::test_a_state_file_that_appears_later_is_refused",
        "tests/test_workspace.py::test_a_state_file_is_refused_under_every_name",
    ),
    bug(
        "the notes of other users are open to the file tools",
        "Hermes GHSA-7w36: what is private of another user",
        _REACH,
        "        if self.viewer is not None and workspace_root.notes.are_hidden(self.viewer, chain, name):",
        "        if False:",
        "tests/workspace/test_forbidden_files_notes.py",
        "tests/adversarial/test_path.py::test_nobody_reaches_the_notes_of_somebody_else_by_any_tool",
    ),
    bug(
        "a write goes through the name, in place",
        "CVE-2026-44112: a link put there in between is followed on write",
        _ATOMIC,
        "        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)\n    except BaseException:",
        "        descriptor = os.open(name, os.O_CREAT | os.O_TRUNC | _WRITING, _NEW_FILE, dir_fd=folder)\n"
        "        os.write(descriptor, data)\n        os.close(descriptor)\n        _drop(folder, temporary)\n"
        "    except BaseException:",
        "tests/test_workspace.py::test_no_race_leads_outside",
        "tests/test_workspace.py::test_a_failed_write_changes_nothing",
        "tests/workspace/test_path_resolver_races.py",
        "tests/test_workspace.py",
        "tests/tools/test_write.py",
    ),
    Bug(
        "opening a pipe waits for its other end",
        "class input: a FIFO as a file hangs the turn",
        (
            Patch(_REACH, "_NO_WAITING = os.O_NONBLOCK | os.O_NOCTTY", "_NO_WAITING = os.O_NOCTTY"),
            Patch(
                _WORKSPACE,
                "            _refuse_kind(place.found, path, folder_too=folder_too)\n            descriptor",
                "            descriptor",
            ),
        ),
        (
            "tests/test_workspace.py::test_only_regular_files_are_opened",
            "tests/adversarial/test_path.py::test_only_regular_files_are_opened_and_nothing_waits",
        ),
    ),
    bug(
        "control characters and direction marks pass in names",
        "class path: a name that looks like another one",
        _PATHS,
        "    elif any(unicodedata.category(character) in _REFUSED or character in _REVERSING for character in path):",
        "    elif False:",
        "tests/test_workspace.py::test_names_with_control_characters_are_refused",
    ),
    bug(
        "a kept output is anybody's",
        "GHSA-hr5v: a second key for a path skips the check",
        "goclaw/store/blobs.py",
        'return self._spills / f"{spill_id}-{hashlib.sha256(owner.encode()).hexdigest()[:32]}"',
        'return self._spills / f"{spill_id}"',
        "tests/store/test_blobs.py",
    ),
    bug(
        "a received file's name is taken as it comes",
        "GHSA-5xfq, NanoClaw outbox: traversal in a name that a client chose",
        "goclaw/turns/attachments.py",
        "    last = unicodedata.normalize(",
        "    return name\n    last = unicodedata.normalize(",
        "tests/turns/test_attachments.py::test_a_name_that_a_stranger_chose_is_only_a_name_in_the_inbox",
    ),
]
