"""The configuration: `schema` says what may be set, `load` reads it and reports what is wrong with it."""
