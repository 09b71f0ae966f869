"""Tools from typed functions, and how a call is checked and run.

`base` declares, `registry` lists, `arguments` validates, `dispatcher` runs. The tools themselves are in `builtin`.

Sources. `sources` makes one list of the catalogue's tools, the tools of sources (`builtin.cli_source`) and those
of installed packages. A package is foreign code: an error while it is loaded, opened, asked or closed leaves it out
and names it to admins (`/tools`, the log, doctor). Descriptions for people, programs and docs/tools.md are made from
the declaration (`tool_docs`). One-file plugins (`plugin_files`) are looked at with users.json while a daemon runs, and
executed again when they changed (`plugin_loading`); their agents and toolsets are read with the configuration.

Offering. A request holds a core of the tools in short form, `tool_search` and `tool_call` (`offering`).
`Registry.offered_to` leaves out tools that cannot work with the configuration (`Tool.needs`) or in the mode
(`Tool.only_in`); a call of one is answered with the reason. `Registry.meant` turns a `tool_call` into the call that it
names, and a name of another system (`catalog.ALIASES`: `Bash`, `Read`; arguments: `registry`) into the tool's own, for
people who may use it: later code never sees the difference, and turns store the tool's own name. The dispatcher
does the same before it authorizes; `core.selection`, roles' inputs and hooks accept either name. Wires repeat
a call as the model made it (`goclaw.llm.encoded.as_offered`). A provider with its own tool search
(`goclaw.llm.anthropic_blocks`) gets the remaining tools deferred (`Request.deferred`), after its cached prefix; its
findings are `Native`.

Authorization. An `Actor` is an identity, never a set of rights. `auth.access` is asked when tools are listed,
again when one runs, and by commands and sessions; users.json is reloaded within two seconds. Tools are selected by
`core.selection`: names, tags, sets and exclusions. `Access` learns a tool's tags from the registry; before the
registry exists, and for a tool that is gone, a tag allows nothing. Sources list the tools that one agent alone has with
the others; `Registry.of` has them for that agent, and rights know them by id (`core.tool_ids`).

Scheduling. The calls of one answer run at the same time unless their declared accesses conflict (`scheduling`): those
keep the answer's order, even while they wait for hooks or a person. Between sessions only a running write excludes
another write of the same place. Each call has one result; a /stop gives the unfinished ones an error, and
`goclaw.conversation.agent.context.model_messages` shows the model all of them in its own order.

Approvals: `goclaw.tools.approval`. The dispatcher checks that an approval is still valid before and after the intent is
written.
"""
