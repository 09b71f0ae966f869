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


BODIES = [
    (400, {"error": {"message": "invalid params, context window exceeds limit (2013)"}}, None),
    (400, {"error": {"message": "<400> InvalidParameter: Range of input length should be [1, 129024]"}}, 129_024),
    (
        400,
        {
            "object": "error",
            "message": "The input (15321 tokens) is longer than the model's context length (8192 tokens).",
        },
        8_192,
    ),
    (
        400,
        {"object": "error", "message": "Input length (15321 tokens) exceeds the maximum allowed length (8186 tokens)."},
        8_186,
    ),
    (400, {"error": {"message": "prompt token count of 140211 exceeds the limit of 128000", "code": "x"}}, 128_000),
    (422, {"error": "Input validation error: `inputs` must have less than 4095 tokens. Given: 5201"}, 4_095),
    (400, {"error": {"message": "Requested input length 9012 exceeds maximum input length 8192"}}, 8_192),
    (400, {"error": "Cannot truncate prompt with n_keep (9012) >= n_ctx (4096)"}, 4_096),
    (
        429,
        {"error": {"message": "Request too large for m on tokens per min: Limit 30000, Requested 41231."}},
        30_000,
    ),
    (
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size",
                "n_prompt_tokens": 5001,
                "n_ctx": 4096,
            }
        },
        4_096,
    ),
    (400, {"error": {"message": "prompt is too long: 208310 tokens > 200000 maximum"}}, 200_000),
    (400, {"error": {"message": "输入长度超过模型上下文最大长度 32768 tokens"}}, 32_768),
    (400, {"error": {"message": "Prompt 超长，请缩短后重试"}}, None),
]
"""Of MiniMax, DashScope, Together, SGLang, Copilot, TGI, NIM, LM Studio, OpenAI, llama.cpp, Anthropic, in Chinese."""


@pytest.mark.promise("P-context-fits")
@pytest.mark.parametrize(("status", "body", "window"), BODIES)
def test_an_overflow_names_the_window_where_that_is_certain(status: int, body: object, window: int | None) -> None:
    error = failed(status, body)
    assert (error.kind, error.window) == (KINDS.OVERFLOW, window)


@pytest.mark.parametrize(
    "words",
    [
        "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64.",
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 150.",
        "max_tokens is too large: 8192. This model supports at most 4096 completion tokens.",
        "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` of this model",
        "Input should be less than or equal to 2",
        "image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
        "messages.3: tool_use ids must be unique",
        "temperature must be at most 2",
    ],
)
def test_a_limit_of_something_else_is_no_overflow(words: str) -> None:
    assert failed(400, {"error": {"message": words}}).kind is KINDS.REJECTED


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ([{"error": {"code": 429, "details": [{"@type": "RetryInfo", "retryDelay": "4s"}]}}], 4.0),
        ({"error": {"message": "Please try again in 7m33.6s."}}, 453.6),
        ({"error": {"message": "Rate limit reached. Retry after 20 seconds"}}, 20.0),
        ({"error": {"message": "try again in 250ms"}}, 0.25),
        ({"error": {"message": "slow down"}, "retry_after": 5}, 5.0),
        ({"error": {"message": "slow down"}}, None),
    ],
)
def test_a_wait_that_stands_in_the_body_is_read(body: object, seconds: float | None) -> None:
    assert failed(429, body).retry_after == seconds


def test_a_daily_limit_says_when_it_ends() -> None:
    words = {"error": {"message": "Rate limit exceeded: free-models-per-day. Add 10 credits", "code": 429}}
    named = {"error": {"message": "Limit reached: requests per day (RPD). Please try again in 2h0m0s."}}
    usually, certain = failed(429, words), failed(429, named)
    assert "such limits usually end at 00:00 UTC on 19 November" in str(usually)
    assert (usually.kind, usually.retry_after) == (KINDS.RATE, 46_400)
    assert "it ends at 13:06 UTC on 18 November" in str(certain)
    assert certain.retry_after == 7_200


def test_of_a_web_page_one_line_is_quoted() -> None:
    page = b"<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head><body>x</body></html>"
    assert str(failed(502, page)).endswith("(a web page: 502 Bad Gateway)")


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
        (503, {"error": {"message": "Loading model"}}, KINDS.LOADING),
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
