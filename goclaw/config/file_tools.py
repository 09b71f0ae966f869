"""The keys of `tools` for the tools that work on files."""

from pydantic import Field

from goclaw.config.section import Section


class ReadSettings(Section):
    """The `read` tool."""

    max_lines: int = Field(500, ge=1, description="Lines returned when no limit is asked for.")
    max_bytes: int = Field(50_000, ge=1_000, description="Bytes returned at most.")
    max_file_mb: int = Field(
        20, ge=1, description="Larger notebooks and texts in UTF-16 are refused in words; other texts have no limit."
    )


class WriteSettings(Section):
    """The `write` tool."""

    review: bool = Field(
        False,
        description="Every change of a file (write, edit, multi_edit, notebook_edit) waits for a yes, with a diff.",
    )


class EditSettings(Section):
    """The `edit` and `multi_edit` tools."""

    allow_fuzz_on_edits: bool = Field(
        True, description="Also find a text whose white space or indentation differs; if not, exactly as it is given."
    )


class SearchSettings(Section):
    """The `search` and `glob` tools."""

    threads: int = Field(2, ge=1, le=64, description="Files that are searched at the same time.")
    timeout: float = Field(10, gt=0, le=300, description="Seconds a search may take; what was found until then counts.")
    max_file_mb: int = Field(
        20, ge=1, le=1_000, description="Larger files of a folder are told and not searched; one named as `path` is."
    )
