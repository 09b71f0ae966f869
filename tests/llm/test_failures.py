from email.utils import formatdate

import aiohttp
import orjson
import pytest

from goclaw.errors import ModelError, ModelErrorKind
from goclaw.llm.failures import connecting, from_object, from_response, reading, retry_after

KINDS = ModelErrorKind
NOW = 1_795_000_000.0
SPEC = "anthropic:claude"

OVERFLOWS = [
    (400, "prompt is too long: 208310 tokens > 200000 maximum"),
    (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    (400, "This model's maximum context length is 128000 tokens. However, your messages resulted in 130021 tokens."),
    (400, "Your input exceeds the context window of this model. Please adjust your input and try again."),
    (400, "Input tokens exceed the configured limit of 272000 tokens."),
    (400, "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."),
    (400, "This model's maximum prompt length is 131072 but the request contains 140000 tokens."),
    (400, "Prompt contains 33000 tokens, too large for model with 32768 maximum context length"),
    (400, "`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4100 `inputs` tokens"),
    (400, "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192"),
    (400, "the request exceeds the available context size. try increasing the context size"),
    (500, "Context size has been exceeded."),
    (400, "The decoder prompt (length 9000) is longer than the maximum model length of 8192."),
    (400, "Trying to keep the first 5000 tokens when context the overflows."),
    (400, "the input length exceeds the context length"),
    (400, "prompt too long; exceeded max context length by 4 tokens"),
    (400, "Invalid request: Your request exceeded model token limit: 131072"),
    (400, "Prompt exceeds max length"),
    (413, "Request exceeds the maximum allowed number of bytes."),
]


def failed(status: int, body: object, **headers: str) -> ModelError:
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    return from_response(SPEC, status, data, headers, NOW)


@pytest.mark.promise("P-context-fits")
@pytest.mark.parametrize(("status", "words"), OVERFLOWS)
def test_every_wording_of_a_prompt_that_is_too_long_is_known(status: int, words: str) -> None:
    assert failed(status, {"error": {"message": words}}).kind is KINDS.OVERFLOW
    assert failed(status, {"error": words}).kind is KINDS.OVERFLOW


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (429, {"error": {"message": "Number of request tokens has exceeded your per-minute rate limit"}}, KINDS.RATE),
        (429, {"error": {"message": "maximum context length tokens per minute"}}, KINDS.RATE),
        (429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}, KINDS.AUTH),
        (400, {"error": {"message": "Your credit balance is too low to access the API."}}, KINDS.AUTH),
        (402, {"error": {"message": "Insufficient credits"}}, KINDS.AUTH),
        (400, {"error": {"code": "model_not_found", "message": "The model `x` does not exist"}}, KINDS.NOT_FOUND),
        (400, {"error": {"code": "content_policy_violation", "message": "no"}}, KINDS.REFUSED),
        (400, {"error": {"message": "max_tokens: must be positive"}}, KINDS.REJECTED),
        (400, [{"error": {"message": "API key not valid", "status": "INVALID_ARGUMENT"}}], KINDS.REJECTED),
        (503, {"error": {"message": "Loading model"}}, KINDS.OVERLOADED),
        (422, {"detail": [{"msg": "field required"}]}, KINDS.REJECTED),
        (418, b"", KINDS.REJECTED),
        (599, b"\xff\xfe", KINDS.SERVER),
    ],
)
def test_text_decides_before_the_status(status: int, body: object, kind: ModelErrorKind) -> None:
    assert failed(status, body).kind is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, KINDS.OVERLOADED),
        ({"type": "rate_limit_error", "message": "x"}, KINDS.RATE),
        ({"type": "api_error", "message": "x"}, KINDS.SERVER),
        ({"type": "authentication_error", "message": "x"}, KINDS.AUTH),
        ({"type": "invalid_request_error", "message": "x"}, KINDS.REJECTED),
        ({"type": "timeout_error", "message": "x"}, KINDS.TIMEOUT),
        ({"code": "rate_limit_exceeded", "message": "x"}, KINDS.RATE),
        ({"code": 502, "message": "Provider returned error"}, KINDS.SERVER),
        ({"code": 429, "message": "x"}, KINDS.RATE),
        ("just words", KINDS.SERVER),
        (None, KINDS.SERVER),
    ],
)
def test_error_objects_in_a_stream_have_their_kind(error: object, kind: ModelErrorKind) -> None:
    assert from_object(SPEC, error).kind is kind


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "Retry-After": "9"}, 1.5),
        ({"Retry-After": formatdate(NOW + 90, usegmt=True)}, 90.0),
        ({"Retry-After": formatdate(NOW - 90, usegmt=True)}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"retry-after-ms": "x", "Retry-After": "-3"}, None),
        ({}, None),
    ],
)
def test_the_wish_to_be_left_alone_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds
    assert failed(429, {"error": "x"}, **headers).retry_after == seconds


def test_a_message_names_model_cause_and_remedy_and_quotes_one_short_line() -> None:
    message = str(failed(404, {"error": {"message": f"no model\n{'x' * 999}"}}))
    assert message == f"{SPEC}: the provider does not know this model; check its name in `models.agent` (no model)"
    assert len(str(failed(500, b"x" * 9_999))) < 500


@pytest.mark.parametrize("secret", ["sk-ant-api03-abcdefgh", "Bearer abcdefgh", "gsk_abcdefgh", "sk-proj-abc***xyz"])
def test_nothing_that_looks_like_a_key_is_quoted(secret: str) -> None:
    assert secret not in str(failed(400, {"error": {"message": f"bad {secret} here"}}))
    assert secret not in str(failed(401, {"error": {"message": f"bad {secret} here"}}))


@pytest.mark.parametrize(
    ("raised", "before", "after"),
    [
        (TimeoutError(), KINDS.TIMEOUT, KINDS.TIMEOUT),
        (aiohttp.ServerTimeoutError(), KINDS.TIMEOUT, KINDS.TIMEOUT),
        (aiohttp.ServerDisconnectedError(), KINDS.NETWORK, KINDS.TRUNCATED),
        (aiohttp.ClientPayloadError(), KINDS.NETWORK, KINDS.TRUNCATED),
        (ConnectionResetError(), KINDS.NETWORK, KINDS.TRUNCATED),
    ],
)
def test_a_lost_connection_means_another_thing_before_and_after_the_answer_began(
    raised: Exception, before: ModelErrorKind, after: ModelErrorKind
) -> None:
    for manager, kind in ((connecting, before), (reading, after)):
        with pytest.raises(ModelError) as caught, manager(SPEC):
            raise raised
        assert caught.value.kind is kind
