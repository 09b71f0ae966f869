"""This gateway's own registry, over HTTP (docs/registries.md): `goclaw registry serve`.

An application on `servers.http`, which bounds every request as it does for the daemon, in a process of its
own. `catalogue` is its content, `visitors` authenticates and authorizes, `api` is the interface on a listener. Its
entries are stored in `goclaw.extensions.registries.catalog_store`.
"""
