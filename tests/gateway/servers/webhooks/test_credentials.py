"""The credentials of calls, against signatures as GitHub and Stripe document them."""

from typing import Any

import pytest
from multidict import CIMultiDict

from goclaw.common.config.webhooks import IncomingWebhook
from goclaw.gateway.servers.webhooks.credentials import CallFault, call_id, proof_in, sign

NOW = 1_700_000_000.0


def hook(**settings: Any) -> IncomingWebhook:
    return IncomingWebhook.model_validate(
        {"secret": "It's-a-Secret-to-Everybody", "user": "telegram:5", "task": "x", **settings}
    )


def test_github_signs_as_its_documentation_says() -> None:
    """The example of docs.github.com, "Testing the webhook payload validation", whose secret has spaces."""
    signature = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    proof = proof_in(hook(hmac="github"), CIMultiDict({"X-Hub-Signature-256": f"sha256={signature}"}), NOW)
    assert proof.fits("It's a Secret to Everybody", b"Hello, World!")
    assert not proof.fits("It's a Secret to Everybody", b"Hello, World?")


@pytest.mark.parametrize("style", [None, "github", "stripe"])
def test_what_is_signed_here_is_right_there(style: str | None) -> None:
    caller = hook(hmac=style)
    proof = proof_in(caller, CIMultiDict(sign(caller, b"{}", NOW)), NOW)
    secret = caller.secret.get_secret_value()
    assert proof.fits(secret, b"{}") and not proof.fits("another secret", b"{}")
    assert proof.fits(secret, b"{ }") is (style is None), "a signature is of one body"


def test_one_of_two_signatures_of_stripe_is_enough() -> None:
    caller = hook(hmac="stripe")
    line = sign(caller, b"{}", NOW)["Stripe-Signature"].replace(",v1=", f",v1={'0' * 64},v1=")
    assert proof_in(caller, CIMultiDict({"Stripe-Signature": line}), NOW).fits("It's-a-Secret-to-Everybody", b"{}")


@pytest.mark.parametrize(
    ("style", "headers"),
    [
        (None, {}),
        (None, {"Authorization": "Basic abc"}),
        (None, {"Authorization": "Bearer "}),
        (None, {"X-GoClaw-Token": ""}),
        (None, {"X-Hub-Signature-256": f"sha256={'0' * 64}"}),
        ("github", {"Authorization": "Bearer It's-a-Secret-to-Everybody"}),
        ("github", {"X-Hub-Signature": f"sha1={'0' * 40}"}),
        ("github", {"X-Hub-Signature-256": "sha256=abc"}),
        ("github", {"X-Hub-Signature-256": f"sha1={'0' * 64}"}),
        ("stripe", {"Stripe-Signature": f"v1={'0' * 64}"}),
        ("stripe", {"Stripe-Signature": f"t={NOW:.0f}"}),
        ("stripe", {"Stripe-Signature": f"t={NOW:.0f},t={NOW:.0f},v1={'0' * 64}"}),
        ("stripe", {"Stripe-Signature": f"t={NOW:.0f}" + f",v1={'0' * 64}" * 11}),
        ("stripe", {"Stripe-Signature": f"t={NOW - 301:.0f},v1={'0' * 64}"}),
        ("stripe", {"Stripe-Signature": f"t={NOW + 301:.0f},v1={'0' * 64}"}),
        ("stripe", {"Stripe-Signature": f"t=-1,v1={'0' * 64}"}),
        ("stripe", {"Stripe-Signature": f"t={'9' * 400},v1={'0' * 64}"}),
    ],
)
def test_what_is_no_credential_is_refused_by_the_head_alone(style: str | None, headers: dict[str, str]) -> None:
    with pytest.raises(CallFault):
        proof_in(hook(hmac=style), CIMultiDict(headers), NOW)


def test_a_header_that_is_there_twice_is_refused() -> None:
    with pytest.raises(CallFault, match="repeated"):
        proof_in(hook(), CIMultiDict([("X-GoClaw-Token", "a"), ("X-GoClaw-Token", "b")]), NOW)


@pytest.mark.parametrize("named", ["x:agent:y", "a:said", "é", "x" * 101, "a b"])
def test_no_id_of_a_caller_imitates_ours(named: str) -> None:
    identity = call_id(hook(), CIMultiDict({"Idempotency-Key": named}), b"", {})
    assert identity.startswith("hash-") and ":" not in identity
    assert call_id(hook(), CIMultiDict({"Idempotency-Key": "evt_1.a-b"}), b"", {}) == "evt_1.a-b"
