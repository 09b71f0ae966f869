"""Bugs in what leaves the checkout: releases, and the images that are pinned."""

from tests.mutations.bug import Bug, bug

_PINS = "scripts/_pin_images.py"
_PIN_TESTS = "tests/scripts/test_pin_images.py"

BUGS: list[Bug] = [
    bug(
        "the digest that a registry claims is taken unseen",
        "class supply chain: a digest that is not that of the content",
        _PINS,
        'if (said := answer.get("Docker-Content-Digest", digest)) != digest:',
        'if not (said := answer.get("Docker-Content-Digest", digest)):',
        f"{_PIN_TESTS}::test_a_digest_that_is_not_that_of_the_manifest_is_refused",
    ),
    bug(
        "a token for a registry is fetched without TLS",
        "class supply chain: a realm of the registry's choice",
        _PINS,
        'realm.scheme == "https" or is_loopback(realm.netloc)',
        "realm.scheme",
        f"{_PIN_TESTS}::test_a_token_is_fetched_over_https_only",
    ),
    bug(
        "a registry's token follows a redirect",
        "class supply chain: CVE-2020-15157 of containerd",
        _PINS,
        "urllib.request.build_opener(_NoRedirects)",
        "urllib.request.build_opener()",
        f"{_PIN_TESTS}::test_a_token_follows_no_redirect",
    ),
    bug(
        "a floating tag is taken for a version",
        "class supply chain: `latest`",
        _PINS,
        "if not name or not (EXACT.match(tag) or (has_two and IN_TWO_PARTS.match(tag))):",
        "if not name:",
        f"{_PIN_TESTS}::test_a_tag_that_is_no_whole_version_is_refused_with_its_line",
    ),
]
