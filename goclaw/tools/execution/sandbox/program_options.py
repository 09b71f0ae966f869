"""Options of well-known programs: those before a subcommand, with a value, or with another effect of the program.

Rules for commands are about words (`git push`); between the words of a command stand options (`git -C . push`). To
look past them, it must be known which take the next word with them. Sources: git(1), docker(1), `kubectl options`,
npm-config(7), `pip --help`, apt-get(8), systemctl(1), ssh(1), coreutils, sudo(8).
"""

from collections.abc import Mapping, Sequence

from goclaw.common.core.records import record
from goclaw.tools.execution.sandbox.base import Unclear

_WHOLE = frozenset({"--text"})
"""Whole names of options that are also the beginning of another (`--textconv`)."""
_MAX_LETTERS = 4
"""Options of one dash with more letters are words (`find -delete`), not letters put together."""


@record
class Syntax:
    """Options before the subcommand of a program, or before the command that a wrapper runs."""

    valued: frozenset[str]
    """They have a value: in the same word, or else in the next."""
    flags: frozenset[str] = frozenset()
    steering: frozenset[str] = frozenset()
    """Those of both by which something else runs, or elsewhere, than the words after them say."""
    anywhere: bool = False
    """They may also stand behind the subcommand."""
    wraps_after: int | None = None
    """Words between its options and the command that it runs; None: it runs no command. Variables (`NAME=value`) stand
    among such a wrapper's options, and unlisted letters are flags."""
    commands: frozenset[str] = frozenset()
    """All its subcommands, where another word may be an alias; empty: it has no aliases."""
    names: Mapping[str, str] | None = None
    """Other names of subcommands; and a beginning of one is one, too."""
    groups: frozenset[str] = frozenset()
    """Words that may stand before a subcommand and change nothing (`docker container run`)."""
    letters: Mapping[str, str] | None = None
    """Other names of options of one letter."""
    runs: Mapping[str, str] | None = None
    """By subcommand (empty: any), options behind it by which it runs a program that they or a file name."""

    @property
    def wraps(self) -> bool:
        """Whether it runs another command."""
        return self.wraps_after is not None

    def takes_next(self, option: str) -> bool:
        """Whether the word after an option is its value.

        Raises:
            Unclear: the option is not known.
        """
        if option.startswith("--"):
            name, given, _ = option.partition("=")
            if name not in self.valued and name not in self.flags:
                raise Unclear(f"the option {name} is not followed")
            return name in self.valued and not given
        if option in self.valued or option in self.flags:
            return option in self.valued
        for at, letter in enumerate(option[1:], 2):
            if f"-{letter}" in self.valued:
                return at == len(option)
            if f"-{letter}" not in self.flags and not self.wraps:
                raise Unclear(f"the option {option} is not followed")
        return False

    def steers(self, option: str) -> bool:
        """Whether an option that is known makes something else of the command."""
        letters = () if option.startswith("--") else tuple(f"-{letter}" for letter in option[1:])
        return not self.steering.isdisjoint((option.partition("=")[0], *letters))

    def dangers(self, subcommand: str, words: Sequence[str | None]) -> str | None:
        """Return the first word that makes a subcommand run another program; `…` for an unknown word."""
        if self.runs is None:
            return None
        listed = f"{self.runs.get('', '')} {self.runs.get(subcommand, '')}".split()
        for word in words:
            if word == "--":
                break
            if word is None:
                return "…"
            if word.startswith("-") and any(_may_be(word, option) for option in listed):
                return word
        return None


def is_option(word: str | None) -> bool:
    """Whether a word is an option; `-` alone is not."""
    return word is not None and word.startswith("-") and word != "-"


def _may_be(word: str, option: str) -> bool:
    """Whether a word is an option, by a beginning of its name or among other letters, too."""
    name = word.partition("=")[0]
    if option.startswith("--"):
        return len(name) > 2 and option.startswith(name) and name not in _WHOLE
    return not word.startswith("--") and option[1] in word[1:]


def has_option(words: Sequence[str | None], option: str, syntax: Syntax | None) -> bool:
    """Whether an option that a rule names may stand among the words: all of its letters, or a beginning of its name; by
    another name, where the program has such."""
    given = [word for word in words if word is not None and is_option(word)]
    same = (syntax and syntax.letters) or {}
    if option.startswith("--"):
        name, _, value = option.partition("=")
        named = any(_may_be(word, name) and (not value or word.endswith(f"={value}")) for word in given)
        return named or (name in same and has_option(words, same[name], syntax))
    if option in given or len(option) > _MAX_LETTERS + 1:
        return option in given
    letters = (f"-{letter}" for letter in option[1:])
    wanted = (
        {letter, *(other for other, short in same.items() if short == same.get(letter, letter))} for letter in letters
    )
    return all(any(_may_be(word, name) for word in given for name in names) for names in wanted)


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


_GIT_COMMANDS = _words(
    "add am annotate apply archive bisect blame branch bugreport bundle cat-file check-attr check-ignore check-mailmap "
    "check-ref-format checkout checkout-index cherry cherry-pick citool clean clone column commit commit-graph "
    "commit-tree config count-objects credential daemon describe diagnose diff diff-files diff-index diff-pairs "
    "diff-tree difftool fast-export fast-import fetch fetch-pack filter-branch fmt-merge-msg for-each-ref "
    "for-each-repo format-patch fsck gc get-tar-commit-id grep gui hash-object help hook http-backend http-fetch "
    "http-push imap-send index-pack init init-db instaweb interpret-trailers lfs log ls-files ls-remote ls-tree "
    "mailinfo mailsplit maintenance merge merge-base merge-file merge-index merge-one-file merge-tree mergetool "
    "mktag mktree multi-pack-index mv name-rev notes p4 pack-objects pack-redundant pack-refs patch-id prune "
    "prune-packed pull push quiltimport range-diff read-tree rebase receive-pack reflog refs remote repack replace "
    "replay request-pull rerere reset restore rev-list rev-parse revert rm send-email send-pack shortlog show "
    "show-branch show-index show-ref sparse-checkout stage stash status stripspace submodule subtree svn switch "
    "symbolic-ref tag unpack-file unpack-objects update-index update-ref update-server-info upload-archive "
    "upload-pack var verify-commit verify-pack verify-tag version whatchanged worktree write-tree"
)
"""git(1). Any other word is an alias, or a program `git-<word>`."""
_KUBECTL_COMMANDS = _words(
    "alpha annotate api-resources api-versions apply attach auth autoscale certificate cluster-info completion config "
    "cordon cp create debug delete describe diff drain edit events exec explain expose get help kuberc kustomize label "
    "logs options patch plugin port-forward proxy replace rollout run scale set taint top uncordon version wait"
)
_NPM_NAMES = {
    **dict.fromkeys(("i", "in", "ins", "inst", "insta", "instal", "add"), "install"),
    **dict.fromkeys(("isnt", "isnta", "isntal", "isntall"), "install"),
    **dict.fromkeys(("un", "unlink", "remove", "rm", "r"), "uninstall"),
    **dict.fromkeys(("run-script", "rum", "urn"), "run"),
    **dict.fromkeys(("up", "upgrade", "udpate"), "update"),
    **dict.fromkeys(("clean-install", "ic", "install-clean", "isntall-clean"), "ci"),
    **dict.fromkeys(("t", "tst"), "test"),
    **dict.fromkeys(("info", "show", "v"), "view"),
    **dict.fromkeys(("create", "innit"), "init"),
    **dict.fromkeys(("login", "add-user"), "adduser"),
    "x": "exec",
    "c": "config",
    "ln": "link",
    "ls": "list",
}
_GIT = Syntax(
    _words("-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source"),
    _words(
        "-p -P -v -h --paginate --no-pager --version --help --bare --no-replace-objects --no-lazy-fetch --no-advice "
        "--no-optional-locks --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs --exec-path "
        "--html-path --man-path --info-path --list-cmds"
    ),
    steering=_words("-c --git-dir --work-tree --super-prefix --config-env --exec-path --bare -p --paginate"),
    commands=_GIT_COMMANDS,
    groups=_words("subtree"),
    runs={
        "": "--ext-diff --textconv --exec --upload-pack --receive-pack --extcmd --open-files-in-pager --template "
        "--show-signature",
        "grep": "-O",
        "rebase": "-x",
        "difftool": "-x -t --tool",
        "clone": "-u -c --config",
        "ls-remote": "",
        "cat-file": "--filters",
        "send-email": "--smtp-server --sendmail-cmd --to-cmd --cc-cmd --header-cmd",
    },
)
_DOCKER = Syntax(
    _words("--config -c --context -H --host -l --log-level --tlscacert --tlscert --tlskey"),
    _words("-D --debug --tls --tlsverify -v --version --help"),
    steering=_words("--config -c --context -H --host --tlscacert --tlscert --tlskey"),
    groups=_words("container image builder"),
)
_KUBECTL = Syntax(
    _words(
        "--as --as-group --as-uid --cache-dir --certificate-authority --client-certificate --client-key --cluster "
        "--context --kubeconfig --kuberc -n --namespace --password --profile --profile-output --request-timeout -s "
        "--server --tls-server-name --token --user --username -v --v --vmodule --log-flush-frequency"
    ),
    _words("--insecure-skip-tls-verify --match-server-version --disable-compression --warnings-as-errors -h --help"),
    steering=_words(
        "--as --as-group --as-uid --certificate-authority --client-certificate --client-key --cluster --context "
        "--kubeconfig --kuberc --password --profile --profile-output -s --server --token --user --username "
        "--insecure-skip-tls-verify --cache-dir"
    ),
    anywhere=True,
    commands=_KUBECTL_COMMANDS,
)
_NPM = Syntax(
    _words(
        "-C --prefix --registry --userconfig --globalconfig --cache --loglevel --tag -w --workspace --script-shell "
        "--node-options --scope --otp --access --location --omit --include --userconfig --before --depth"
    ),
    _words(
        "-s --silent -q --quiet -d -dd -ddd --verbose -g --global -y --yes --json --long -l -p --parseable --force -f "
        "--dry-run --offline --prefer-offline --no-audit --no-fund --no-color --no-progress --workspaces -ws "
        "--ignore-scripts --foreground-scripts --if-present -h --help -v --version -D -S -E -P -O"
    ),
    steering=_words("-C --prefix --userconfig --globalconfig --script-shell --node-options --registry"),
    anywhere=True,
    names=_NPM_NAMES,
)
_PIP = Syntax(
    _words(
        "--python --log --keyring-provider --proxy --retries --timeout --exists-action --trusted-host --cert "
        "--client-cert --cache-dir --use-feature --use-deprecated --resume-retries"
    ),
    _words(
        "-h --help --debug --isolated --require-virtualenv -v -vv -vvv --verbose -V --version -q -qq -qqq --quiet "
        "--no-input --no-cache-dir --disable-pip-version-check --no-color --no-python-version-warning"
    ),
    steering=_words("--python --log --keyring-provider --proxy --trusted-host --cert --client-cert --cache-dir"),
    anywhere=True,
)
_APT = Syntax(
    _words("-o --option -c --config-file -t --target-release --default-release -a --host-architecture"),
    _words(
        "-y --yes --assume-yes --assume-no -q -qq --quiet -s --simulate --dry-run --just-print --no-act --recon -d "
        "--download-only -f --fix-broken -m --ignore-missing --fix-missing -u --show-upgraded -V --verbose-versions "
        "--no-install-recommends --install-recommends --install-suggests --no-upgrade --only-upgrade --reinstall "
        "--purge --autoremove --allow-downgrades --allow-unauthenticated --no-download --print-uris --trivial-only -h "
        "--help -v --version"
    ),
    steering=_words("-o --option -c --config-file"),
    anywhere=True,
)
_SYSTEMCTL = Syntax(
    _words(
        "-t --type --state -p --property -P -H --host -M --machine -n --lines -o --output -s --signal --kill-whom "
        "--kill-who --kill-value --what --root --image --image-policy --preset-mode --job-mode --check-inhibitors "
        "--timestamp --drop-in --when --message -C --capsule --reboot-argument --boot-loader-menu --boot-loader-entry"
    ),
    _words(
        "--user --system -a --all -r --recursive -l --full -q --quiet --no-pager --no-block --no-wall --now -f --force "
        "--no-ask-password --no-reload --wait --failed -i --ignore-dependencies --dry-run --global --runtime --reverse "
        "--after --before --with-dependencies --plain --no-legend --legend --value --show-types --show-transaction "
        "--mkdir --marked --read-only --fail --firmware-setup -T --stdin -h --help --version"
    ),
    steering=_words("-H --host -M --machine --root --image --image-policy -C --capsule --user --system --global"),
    anywhere=True,
)
_TIMEOUT = _words("-k -s --kill-after --signal")
OPTIONS: Mapping[str, Syntax] = {
    "git": _GIT,
    "docker": _DOCKER,
    "podman": _DOCKER,
    "kubectl": _KUBECTL,
    "npm": _NPM,
    "pip": _PIP,
    "apt": _APT,
    "apt-get": _APT,
    "systemctl": _SYSTEMCTL,
    "rm": Syntax(_words(""), _words("--recursive --force"), letters={"--recursive": "-r", "-R": "-r", "--force": "-f"}),
    "ssh": Syntax(
        _words("-B -b -c -D -E -e -F -I -i -J -L -l -m -O -o -P -p -Q -R -S -W -w"),
        _words("-4 -6 -A -a -C -f -G -g -K -k -M -N -n -q -s -T -t -V -v -X -x -Y -y"),
        steering=_words("-F -I -J -o -S"),
        wraps_after=1,
    ),
    "env": Syntax(
        _words("-u --unset -C --chdir -a --argv0"),
        _words(
            "--ignore-environment --null --debug --block-signal --default-signal --ignore-signal --list-signal-handling"
        ),
        wraps_after=0,
    ),
    "sudo": Syntax(
        _words(
            "-u -g -h -p -C -r -t -U -D -R -T --user --group --host --prompt --close-from --role --type --other-user "
            "--chdir --chroot --command-timeout"
        ),
        _words("--askpass --background --bell --preserve-env --set-home --non-interactive --preserve-groups --stdin"),
        steering=_words("-e -i -s"),
        wraps_after=0,
    ),
    "doas": Syntax(_words("-u -C -a"), steering=_words("-C -s"), wraps_after=0),
    "time": Syntax(_words("-f -o --format --output"), _words("--append --portability --verbose"), wraps_after=0),
    "setsid": Syntax(_words(""), _words("--ctty --fork --wait"), wraps_after=0),
    "nice": Syntax(_words("-n --adjustment"), wraps_after=0),
    "ionice": Syntax(_words("-c -n --class --classdata"), _words("--ignore"), wraps_after=0),
    "stdbuf": Syntax(_words("-i -o -e --input --output --error"), wraps_after=0),
    "timeout": Syntax(_TIMEOUT, _words("--foreground --preserve-status --verbose"), wraps_after=1),
    "chrt": Syntax(_words("-T -P -D"), _words("--other --batch --idle --fifo --rr"), wraps_after=1),
    "taskset": Syntax(_words(""), _words("--cpu-list"), wraps_after=1),
    **dict.fromkeys(("nohup", "command", "builtin", "exec", "coproc"), Syntax(_words("-a"), wraps_after=0)),
    **dict.fromkeys(("busybox", "toybox", "!"), Syntax(_words(""), wraps_after=0)),
    "xargs": Syntax(
        _words("-a -d -E -I -L -n -P -s --arg-file --delimiter --max-args --max-procs --max-chars --process-slot-var"),
        _words(
            "--null --eof --replace --max-lines --interactive --no-run-if-empty --open-tty --show-limits --verbose "
            "--exit"
        ),
        wraps_after=0,
    ),
}
"""By the name of the program. A wrapper's long options without a value stand among its flags."""
