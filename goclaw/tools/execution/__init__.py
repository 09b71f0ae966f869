"""Commands: the tiers that contain them (`sandbox`), background tasks (`tasks`), shorter output (`compression`)."""
