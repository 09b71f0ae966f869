"""Webhooks: services that call `/hooks/<name>` on the HTTP listener, and the messages and tasks that this makes.

A call passes, in this order: its path, its credential's form, a rate limit, the size and time of its body, its
signature, the template. Then it is queued; the caller hears 202 when that is on disk, and 200 when it was before.

`credentials` says who may call, `template` makes a text of the body, `receiving` is the way of a call. Loaded through
the catalogue where the configuration has `webhooks`.
"""
