"""The store on Postgres, as the catalogue names it."""

from goclaw.durable.store.database import StorePart
from goclaw.durable.store.postgres.beside import examine, exists, read_rows
from goclaw.durable.store.postgres.copying import copy_to_file, replace_with_file
from goclaw.durable.store.postgres.database import open_schema
from goclaw.durable.store.postgres.folder_probe import open_probe, unseen_folders
from goclaw.durable.store.postgres.state_audits import copy_audits
from goclaw.durable.store.postgres.state_files import StateFiles

PART = StorePart(
    open=open_schema,
    read=read_rows,
    exists=exists,
    examine=examine,
    probe=open_probe,
    unseen_folders=unseen_folders,
    copy_to_file=copy_to_file,
    replace_with_file=replace_with_file,
    files=StateFiles,
    audits=copy_audits,
)
"""The store that `STORES` of the catalogue names."""
