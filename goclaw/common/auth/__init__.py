"""Who may do what: the users and their rights, tokens, pairing of strangers, and the audit log.

`access` decides (`authorize`), `users` reads users.json, `tokens` and `pairing` say who someone is, `audit` records
what was decided. `config_lint` names what the configuration and users.json misspell.
"""
