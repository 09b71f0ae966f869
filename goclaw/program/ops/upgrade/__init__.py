"""`goclaw upgrade`: a new version is tried on a copy of the state, takes over in one step, or leaves no trace.

`installation` recognises how GoClaw was installed: `checkout` and `package` install a version next to the running
one. `engine` has the list of steps, `journal` says on disk how far they are, `recovery` undoes or finishes what a
kill cut. `snapshot` keeps the state as the old version left it, `changes` compares two versions.

The switch is one system call: the new environment and the old one exchange their places (`exchange`). The commit is
another one: the new daemon removes a marker right before it begins to work (`config.state.commit_upgrade`). Until
then nothing was answered, sent or acknowledged with the new version, and going back loses nothing.
"""
