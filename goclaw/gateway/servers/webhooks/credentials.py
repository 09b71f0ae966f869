"""The credentials of calls: a secret in a header, or a signature of the body.

GitHub: `X-Hub-Signature-256: sha256=<hex>` over the body (docs.github.com, "Validating webhook deliveries").
Stripe: `Stripe-Signature: t=<seconds>,v1=<hex>` over `<t>.<body>` (docs.stripe.com, "Verify webhook signatures"); a
call may have several `v1` while a secret is rolled, and is good for five minutes.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping

from multidict import CIMultiDict, CIMultiDictProxy

from goclaw.common.config.webhooks import IncomingWebhook
from goclaw.common.core.records import record

TOKEN, GITHUB, STRIPE = "X-GoClaw-Token", "X-Hub-Signature-256", "Stripe-Signature"
AUTHORIZATION = "Authorization"
GITHUB_EVENT, GITHUB_ID, IDEMPOTENCY_KEY = "X-GitHub-Event", "X-GitHub-Delivery", "Idempotency-Key"
TOLERANCE = 300.0
"""Seconds by which Stripe's time may differ from ours."""
MAX_SIGNATURES = 10
"""Signatures of one call that are looked at."""
_HEX = re.compile("[0-9a-f]{64}")
_PLAIN_ID = re.compile("[A-Za-z0-9._-]{1,100}")

Headers = CIMultiDict[str] | CIMultiDictProxy[str]


class CallFault(Exception):
    """The call cannot be taken; the message is for its caller."""


@record
class Proof:
    """The proof in a call that its caller knows the secret."""

    shown: tuple[str, ...]
    """The secret, or signatures."""
    signs_body: bool = False
    prefix: bytes = b""
    """The bytes that are signed before the body."""

    def fits(self, secret: str, body: bytes = b"") -> bool:
        """Whether one of them is right, compared in constant time. The body counts only where it is signed."""
        expected = _signature(secret, self.prefix + body) if self.signs_body else secret
        matches = [hmac.compare_digest(each.encode(errors="replace"), expected.encode()) for each in self.shown]
        return any(matches)


def proof_in(hook: IncomingWebhook, headers: Headers, now: float) -> Proof:
    """Return the proof in the head of a call.

    Raises:
        CallFault: it shows nothing, something twice, or a signature that is too old.
    """
    match hook.hmac:
        case "github":
            kind, _, signature = _only(headers, GITHUB).partition("=")
            if kind != "sha256" or not _HEX.fullmatch(signature):
                raise CallFault(f"{GITHUB} is not a sha256 signature")
            return Proof((signature,), signs_body=True)
        case "stripe":
            return _of_stripe(_only(headers, STRIPE), now)
        case _:
            return Proof((_secret_in(headers),))


def sign(hook: IncomingWebhook, body: bytes, now: float) -> Mapping[str, str]:
    """Return the headers with which a caller proves that it knows the secret."""
    secret = hook.secret.get_secret_value()
    match hook.hmac:
        case "github":
            return {GITHUB: f"sha256={_signature(secret, body)}"}
        case "stripe":
            return {STRIPE: f"t={int(now)},v1={_signature(secret, b'%d.' % int(now) + body)}"}
        case _:
            return {AUTHORIZATION: f"Bearer {secret}"}


def call_id(hook: IncomingWebhook, headers: Headers, raw: bytes, body: object) -> str:
    """Return what names the call, so that its repetition is known as one; empty: nothing does.

    Raises:
        CallFault: the header that the configuration names is missing, or there twice.
    """
    if hook.idempotent_by_hash:
        return f"body-{hashlib.sha256(raw).hexdigest()}"
    if hook.id_header:
        return _plain(_only(headers, hook.id_header))
    if hook.hmac == "stripe":
        named = body.get("id") if isinstance(body, dict) else None
        return _plain(named) if isinstance(named, str) and named else ""
    found = next((name for name in (GITHUB_ID, IDEMPOTENCY_KEY) if headers.get(name)), "")
    return _plain(_only(headers, found)) if found else ""


def _secret_in(headers: Headers) -> str:
    if TOKEN in headers:
        return _only(headers, TOKEN)
    scheme, _, secret = _only(headers, AUTHORIZATION).partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise CallFault(f"{AUTHORIZATION} is not a Bearer token")
    return secret


def _of_stripe(line: str, now: float) -> Proof:
    parts = [part.strip().partition("=") for part in line.split(",")]
    times = [value for name, _, value in parts if name == "t" and re.fullmatch("[0-9]{1,12}", value)]
    signatures = tuple(value for name, _, value in parts if name == "v1" and _HEX.fullmatch(value))
    if len(times) != 1 or not signatures or len(signatures) > MAX_SIGNATURES:
        raise CallFault(f"{STRIPE} is not a signature with a time")
    if abs(now - int(times[0])) > TOLERANCE:
        raise CallFault(f"{STRIPE} is more than {TOLERANCE:.0f} s old")
    return Proof(signatures, signs_body=True, prefix=f"{times[0]}.".encode())


def _only(headers: Headers, name: str) -> str:
    """Return the value of a header: two of them may be read as one by a proxy and as the other by us."""
    found = headers.getall(name, [])
    if len(found) != 1 or not found[0]:
        raise CallFault(f"{name} is missing" if not found else f"{name} is empty or repeated")
    return found[0]


def _plain(named: str) -> str:
    """Return an id as it may stand in ids of ours: a caller cannot imitate their parts."""
    return named if _PLAIN_ID.fullmatch(named) else f"hash-{hashlib.sha256(named.encode(errors='replace')).hexdigest()}"


def _signature(secret: str, signed_bytes: bytes) -> str:
    return hmac.new(secret.encode(), signed_bytes, hashlib.sha256).hexdigest()
