"""The table of programs whose options are known; see `options` for its meaning."""

from collections.abc import Mapping

from goclaw.sandbox.options import Syntax


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_GIT_COMMANDS = _set(
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
_KUBECTL_COMMANDS = _set(
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
    _set("-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source"),
    _set(
        "-p -P -v -h --paginate --no-pager --version --help --bare --no-replace-objects --no-lazy-fetch --no-advice "
        "--no-optional-locks --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs --exec-path "
        "--html-path --man-path --info-path --list-cmds"
    ),
    steering=_set("-c --git-dir --work-tree --super-prefix --config-env --exec-path --bare -p --paginate"),
    commands=_GIT_COMMANDS,
    groups=_set("subtree"),
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
    _set("--config -c --context -H --host -l --log-level --tlscacert --tlscert --tlskey"),
    _set("-D --debug --tls --tlsverify -v --version --help"),
    steering=_set("--config -c --context -H --host --tlscacert --tlscert --tlskey"),
    groups=_set("container image builder"),
)
_KUBECTL = Syntax(
    _set(
        "--as --as-group --as-uid --cache-dir --certificate-authority --client-certificate --client-key --cluster "
        "--context --kubeconfig --kuberc -n --namespace --password --profile --profile-output --request-timeout -s "
        "--server --tls-server-name --token --user --username -v --v --vmodule --log-flush-frequency"
    ),
    _set("--insecure-skip-tls-verify --match-server-version --disable-compression --warnings-as-errors -h --help"),
    steering=_set(
        "--as --as-group --as-uid --certificate-authority --client-certificate --client-key --cluster --context "
        "--kubeconfig --kuberc --password --profile --profile-output -s --server --token --user --username "
        "--insecure-skip-tls-verify --cache-dir"
    ),
    anywhere=True,
    commands=_KUBECTL_COMMANDS,
)
_NPM = Syntax(
    _set(
        "-C --prefix --registry --userconfig --globalconfig --cache --loglevel --tag -w --workspace --script-shell "
        "--node-options --scope --otp --access --location --omit --include --userconfig --before --depth"
    ),
    _set(
        "-s --silent -q --quiet -d -dd -ddd --verbose -g --global -y --yes --json --long -l -p --parseable --force -f "
        "--dry-run --offline --prefer-offline --no-audit --no-fund --no-color --no-progress --workspaces -ws "
        "--ignore-scripts --foreground-scripts --if-present -h --help -v --version -D -S -E -P -O"
    ),
    steering=_set("-C --prefix --userconfig --globalconfig --script-shell --node-options --registry"),
    anywhere=True,
    names=_NPM_NAMES,
)
_PIP = Syntax(
    _set(
        "--python --log --keyring-provider --proxy --retries --timeout --exists-action --trusted-host --cert "
        "--client-cert --cache-dir --use-feature --use-deprecated --resume-retries"
    ),
    _set(
        "-h --help --debug --isolated --require-virtualenv -v -vv -vvv --verbose -V --version -q -qq -qqq --quiet "
        "--no-input --no-cache-dir --disable-pip-version-check --no-color --no-python-version-warning"
    ),
    steering=_set("--python --log --keyring-provider --proxy --trusted-host --cert --client-cert --cache-dir"),
    anywhere=True,
)
_APT = Syntax(
    _set("-o --option -c --config-file -t --target-release --default-release -a --host-architecture"),
    _set(
        "-y --yes --assume-yes --assume-no -q -qq --quiet -s --simulate --dry-run --just-print --no-act --recon -d "
        "--download-only -f --fix-broken -m --ignore-missing --fix-missing -u --show-upgraded -V --verbose-versions "
        "--no-install-recommends --install-recommends --install-suggests --no-upgrade --only-upgrade --reinstall "
        "--purge --autoremove --allow-downgrades --allow-unauthenticated --no-download --print-uris --trivial-only -h "
        "--help -v --version"
    ),
    steering=_set("-o --option -c --config-file"),
    anywhere=True,
)
_SYSTEMCTL = Syntax(
    _set(
        "-t --type --state -p --property -P -H --host -M --machine -n --lines -o --output -s --signal --kill-whom "
        "--kill-who --kill-value --what --root --image --image-policy --preset-mode --job-mode --check-inhibitors "
        "--timestamp --drop-in --when --message -C --capsule --reboot-argument --boot-loader-menu --boot-loader-entry"
    ),
    _set(
        "--user --system -a --all -r --recursive -l --full -q --quiet --no-pager --no-block --no-wall --now -f --force "
        "--no-ask-password --no-reload --wait --failed -i --ignore-dependencies --dry-run --global --runtime --reverse "
        "--after --before --with-dependencies --plain --no-legend --legend --value --show-types --show-transaction "
        "--mkdir --marked --read-only --fail --firmware-setup -T --stdin -h --help --version"
    ),
    steering=_set("-H --host -M --machine --root --image --image-policy -C --capsule --user --system --global"),
    anywhere=True,
)
_TIMEOUT = _set("-k -s --kill-after --signal")
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
    "rm": Syntax(_set(""), _set("--recursive --force"), letters={"--recursive": "-r", "-R": "-r", "--force": "-f"}),
    "ssh": Syntax(
        _set("-B -b -c -D -E -e -F -I -i -J -L -l -m -O -o -P -p -Q -R -S -W -w"),
        _set("-4 -6 -A -a -C -f -G -g -K -k -M -N -n -q -s -T -t -V -v -X -x -Y -y"),
        steering=_set("-F -I -J -o -S"),
        wraps=True,
        skip=1,
    ),
    "env": Syntax(
        _set("-u --unset -C --chdir -a --argv0"),
        _set(
            "--ignore-environment --null --debug --block-signal --default-signal --ignore-signal --list-signal-handling"
        ),
        wraps=True,
    ),
    "sudo": Syntax(
        _set(
            "-u -g -h -p -C -r -t -U -D -R -T --user --group --host --prompt --close-from --role --type --other-user "
            "--chdir --chroot --command-timeout"
        ),
        _set("--askpass --background --bell --preserve-env --set-home --non-interactive --preserve-groups --stdin"),
        steering=_set("-e -i -s"),
        wraps=True,
    ),
    "doas": Syntax(_set("-u -C -a"), steering=_set("-C -s"), wraps=True),
    "time": Syntax(_set("-f -o --format --output"), _set("--append --portability --verbose"), wraps=True),
    "setsid": Syntax(_set(""), _set("--ctty --fork --wait"), wraps=True),
    "nice": Syntax(_set("-n --adjustment"), wraps=True),
    "ionice": Syntax(_set("-c -n --class --classdata"), _set("--ignore"), wraps=True),
    "stdbuf": Syntax(_set("-i -o -e --input --output --error"), wraps=True),
    "timeout": Syntax(_TIMEOUT, _set("--foreground --preserve-status --verbose"), wraps=True, skip=1),
    "chrt": Syntax(_set("-T -P -D"), _set("--other --batch --idle --fifo --rr"), wraps=True, skip=1),
    "taskset": Syntax(_set(""), _set("--cpu-list"), wraps=True, skip=1),
    **dict.fromkeys(("nohup", "command", "builtin", "exec", "coproc"), Syntax(_set("-a"), wraps=True)),
    **dict.fromkeys(("busybox", "toybox", "!"), Syntax(_set(""), wraps=True)),
    "xargs": Syntax(
        _set("-a -d -E -I -L -n -P -s --arg-file --delimiter --max-args --max-procs --max-chars --process-slot-var"),
        _set(
            "--null --eof --replace --max-lines --interactive --no-run-if-empty --open-tty --show-limits --verbose "
            "--exit"
        ),
        wraps=True,
    ),
}
"""By the name of the program. A wrapper's long options without a value stand among its flags."""
