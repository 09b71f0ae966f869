"""The store on Postgres, as the catalogue names it."""

from goclaw.store.database import StorePart
from goclaw.store.postgres.beside import examine, exists, read
from goclaw.store.postgres.copying import copy_to_file, fill_with_file, replace_with_file
from goclaw.store.postgres.database import open_schema

PART = StorePart(open_schema, read, exists, examine, copy_to_file, replace_with_file, fill_with_file)
"""The store that `STORES` of the catalogue names."""
