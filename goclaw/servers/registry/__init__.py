"""This gateway's own registry, over HTTP (docs/registries.md): `goclaw registry serve`.

`catalogue` is what it offers, `visitors` who may do what, `pages` the interface, `open` puts them on a listener of its
own. What it keeps is in `goclaw.registries.catalog_store`.
"""
