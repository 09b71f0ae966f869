"""A configuration file without its secrets: what is left may be kept where the secrets must not be."""

from collections.abc import Iterator

import yaml

from goclaw.config.keys import Loc, is_secret
from goclaw.config.layers import key_kind
from goclaw.redact import mask

_NOTHING = "tag:yaml.org,2002:null"


def without_secrets(text: str) -> tuple[str, list[str]]:
    """Replace every secret of a valid configuration by `null`; return the text and the keys of the secrets.

    A secret is the value of a secret key, and whatever `redact.mask` would hide: known secrets in other places, tokens,
    passwords in URLs; those in comments are masked. Everything else stays as it was written.
    """
    # Not the loader of libyaml: its positions count differently.
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    found = sorted(_secrets(node, ()), key=lambda secret: secret[1].start_mark.index, reverse=True)
    for _, scalar in found:
        start, end = scalar.start_mark.index, scalar.end_mark.index
        # A block (`key: |`) ends behind its last line.
        text = f"{text[:start]}null{chr(10) if text[start:end].endswith(chr(10)) else ''}{text[end:]}"
    return mask(text), [".".join(map(str, loc)) for loc, _ in reversed(found)]


def _secrets(node: yaml.Node | None, loc: Loc) -> Iterator[tuple[Loc, yaml.ScalarNode]]:
    match node:
        case yaml.MappingNode():
            for key, value in node.value:
                yield from _secrets(value, (*loc, key.value))
        case yaml.SequenceNode():
            for index, value in enumerate(node.value):
                yield from _secrets(value, (*loc, index))
        case yaml.ScalarNode() if node.tag != _NOTHING and (_is_secret_key(loc) or mask(node.value) != node.value):
            yield loc, node
        case _:
            pass


def _is_secret_key(loc: Loc) -> bool:
    return is_secret(key_kind(tuple(map(str, loc))))
