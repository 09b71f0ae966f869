"""OpenAI's protocol for programs, on the HTTP listener: `/v1/models`, `/v1/chat/completions`, `/v1/responses`.

A request passes, in this order: the listener's checks, the token, the bounds of its caller, size and time of its body,
its form, the rights to the agent and the session (`places`). It becomes a turn like any other: `asking` begins it, or
finds the one that its `Idempotency-Key` began before, and follows it; `reading` turns the turn's events into the
caller's answer, and `answers` gives that the form of the two protocols, whole or streamed.

Nothing of a conversation that the program keeps itself is remembered (`core.events.PROGRAM_MARK`), and no person waits
for such a turn (`core.events.Unattended`). `requests` has what may come in, `errors` how refusals look.

Sources: the OpenAPI document of OpenAI's API (github.com/openai/openai-openapi) and the types of the package `openai`.
Loaded through the catalogue with `http.openai`.
"""
