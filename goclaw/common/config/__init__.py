"""The configuration: `schema` defines the keys, `load` reads the files and reports errors."""
