"""The file of registries in a backup."""

from goclaw.extensions.registries.file import check_catalog, copy_catalog
from goclaw.program.ops.backup.archive import RegistryFilePart

PART = RegistryFilePart(copy_catalog, check_catalog)
