"""Who may do what: the users and their rights, tokens, pairing of strangers, and the audit log.

`access` decides (`authorize`), `users` reads users.json, `tokens` and `pairing` say who someone is, `audit` records
decisions. `config_lint` finds misspelt names in the configuration and users.json.
"""
