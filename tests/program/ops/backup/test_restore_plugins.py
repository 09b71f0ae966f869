"""Plugins come back with a backup: single files as they were, packages as a record that the next start installs."""

import pytest

from goclaw.common.core.plugin_folder import FOLDER, InstalledPlugin, PluginRecord, read_record, write_record
from tests.program.ops.backup.support import Home, members_of
from tests.tools.toolkit.one_file import TOOL, put

PLUGIN = InstalledPlugin("garden-tools", "garden-tools>=1", "1.0", "garden-tools==1.0", parts=("tools.garden",))


@pytest.mark.promise("P-restore-whole")
@pytest.mark.promise("P-plugins-stay")
def test_plugins_come_back_and_packages_are_due(home: Home) -> None:
    path = put(home.state / "tools" / "garden.py", TOOL.format(name="garden", says="before"))
    (home.state / FOLDER / "site-1").mkdir(mode=0o700, parents=True)
    (home.state / FOLDER / "site-1" / "garden.so").write_text("a package is in no backup")
    write_record(home.state, PluginRecord("site-1", "a stamp", (PLUGIN,)))
    archive = home.folder / "with-plugins.gz"
    home.back_up(archive.name)
    members = members_of(archive)
    assert {name for name in members if name.startswith(("tools", "plugins"))} == {"tools/garden.py", "plugins.json"}
    put(path, TOOL.format(name="garden", says="after"))
    write_record(home.state, PluginRecord())
    (home.state / FOLDER / "site-1" / "garden.so").unlink()
    (home.state / FOLDER / "site-1").rmdir()
    home.restore(archive, settings=False)
    assert "after" in path.read_text() and read_record(home.state).plugins == ()
    restored = home.restore(archive)
    assert {"one-file plugins", "plugins, which the next start installs"} <= set(restored.parts)
    assert "before" in path.read_text() and path.stat().st_mode & 0o077 == 0
    record = read_record(home.state)
    assert record.plugins == (PLUGIN,) and record.is_due(now=0)
