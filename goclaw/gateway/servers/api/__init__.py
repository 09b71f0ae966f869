"""GoClaw's own HTTP API for programs and pages, on the HTTP listener beneath `/api/v1/`.

`operations` has the form of an entry of the table and `table` all of them: routes (`routes`) and the OpenAPI document
are made of that one table. A request passes, in this order: the listener's checks, the token and its bounds
(`servers.programs`), its form (`reading`), then the operation's handler, which asks the gateway as the token's user.
Errors are problem details (`problems`).

Sources: OpenAPI 3.1, RFC 9457 (problem details), RFC 3986 (paths). Loaded through the catalogue with `http.api`.
"""
