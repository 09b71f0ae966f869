"""THE list: every part that can be added, one line each. Strings only; a part is imported when it is first used.

A new channel, provider, tool or command is a new file, or a part of its family's, and one new line here. Third
parties add theirs through the entry-point group `goclaw.plugins`, which feeds the same list (`plugins.py`).
"""

CHANNELS = {
    "memory": "goclaw.channels.memory:CHANNEL",
    "telegram": "goclaw.channels.telegram:CHANNEL",
}

CHANNELS_OF_SECTIONS = {
    "notify": "goclaw.channels.notify:CHANNEL",
}
"""Channels that only send, by section of the configuration: loaded when it is not empty."""

ACCOUNTS = {
    "telegram": "goclaw.channels.telegram.account:ACCOUNT",
}

PROVIDERS = {
    "demo": "goclaw.llm.demo:PROVIDER",
    "scripted": "goclaw.llm.scripted:PROVIDER",
    "anthropic": "goclaw.llm.anthropic:PROVIDER",
    "openai-chat": "goclaw.llm.openai_chat:PROVIDER",
    "ollama": "goclaw.llm.ollama:PROVIDER",
    "pydantic-ai": "goclaw.llm.pydantic_ai:PROVIDER",
}

TOOLS = {
    "read": "goclaw.tools.builtin.read:read",
    "write": "goclaw.tools.builtin.write:write",
    "edit": "goclaw.tools.builtin.edit:edit",
    "multi_edit": "goclaw.tools.builtin.edit:multi_edit",
    "notebook_edit": "goclaw.extensions.notebook.notebook_edit:notebook_edit",
    "glob": "goclaw.tools.builtin.listing:glob",
    "list": "goclaw.tools.builtin.listing:list_",
    "search": "goclaw.tools.builtin.search:search",
    "exec": "goclaw.tools.builtin.exec:exec_",
    "bg_exec": "goclaw.tools.builtin.exec:bg_exec",
    "task_output": "goclaw.tools.builtin.background_tasks:task_output",
    "task_input": "goclaw.tools.builtin.background_tasks:task_input",
    "task_stop": "goclaw.tools.builtin.background_tasks:task_stop",
    "task_list": "goclaw.tools.builtin.background_tasks:task_list",
    "ssh_exec": "goclaw.extensions.ssh.ssh_exec:ssh_exec",
    "web_fetch": "goclaw.tools.builtin.web:web_fetch",
    "web_search": "goclaw.tools.builtin.web:web_search",
    "message": "goclaw.tools.builtin.message:message",
    "memory_search": "goclaw.tools.builtin.memory_files:memory_search",
    "memory_list": "goclaw.tools.builtin.memory_files:memory_list",
    "memory_get": "goclaw.tools.builtin.memory_files:memory_get",
    "memory_read": "goclaw.tools.builtin.memory_values:memory_read",
    "memory_write": "goclaw.tools.builtin.memory_values:memory_write",
    "memory_delete": "goclaw.tools.builtin.memory_values:memory_delete",
    "transcript_search": "goclaw.tools.builtin.transcript_search:transcript_search",
    "memento": "goclaw.tools.builtin.memento:memento",
    "ask_user": "goclaw.tools.builtin.ask_user:ask_user",
    "schedule": "goclaw.tools.builtin.schedule:schedule",
    "todo_write": "goclaw.tools.builtin.planning:todo_write",
    "agent": "goclaw.tools.builtin.agent:agent",
    "command": "goclaw.tools.builtin.gateway_control:command",
    "config": "goclaw.tools.builtin.gateway_control:config",
    "exit_plan_mode": "goclaw.tools.builtin.planning:exit_plan_mode",
    "tool_search": "goclaw.tools.builtin.tool_search:tool_search",
    "tool_call": "goclaw.tools.builtin.tool_search:tool_call",
}

GATED_TOOLS = {
    "teams": {
        "team_create": "goclaw.tools.builtin.teams:team_create",
        "send_message": "goclaw.tools.builtin.teams:send_message",
        "team_delete": "goclaw.tools.builtin.teams:team_delete",
    },
}
"""Tools that are there only where a key of `tools`, their gate, says so."""

ALIASES = {
    "Agent": "agent",
    "AskUserQuestion": "ask_user",
    "Bash": "exec",
    "BashOutput": "task_output",
    "Config": "config",
    "Edit": "edit",
    "ExitPlanMode": "exit_plan_mode",
    "Glob": "glob",
    "Grep": "search",
    "KillShell": "task_stop",
    "LS": "list",
    "ListMcpResources": "list_mcp_resources",
    "MultiEdit": "multi_edit",
    "NotebookEdit": "notebook_edit",
    "Read": "read",
    "ReadMcpResource": "read_mcp_resource",
    "SendMessage": "send_message",
    "Task": "agent",
    "TaskOutput": "task_output",
    "TaskStop": "task_stop",
    "TeamCreate": "team_create",
    "TeamDelete": "team_delete",
    "TodoWrite": "todo_write",
    "WebFetch": "web_fetch",
    "WebSearch": "web_search",
    "Write": "write",
    "ask_user_question": "ask_user",
    "bash": "exec",
    "goa_command": "command",
    "grep": "search",
    "ls": "list",
    "ssh_bash": "ssh_exec",
}
"""Names of tools in other systems, which models know; see `toolkit.registry`."""

SERVERS = {
    "mcp": "goclaw.gateway.servers.mcp.http:SERVER",
}
"""Listeners whose libraries are loaded only where the configuration wants them."""

ROUTES = {
    "api": "goclaw.gateway.servers.api.routes:API",
    "metrics": "goclaw.gateway.servers.metrics.serving:METRICS",
    "openai": "goclaw.gateway.servers.openai.routes:OPENAI",
    "web": "goclaw.gateway.servers.web.routes:WEB",
    "webhooks": "goclaw.gateway.servers.webhooks.receiving:WEBHOOKS",
}
"""Routes of the HTTP listener by switch of `http`, or by section of the configuration that is not empty."""

STORES = {"postgres": "goclaw.durable.store.postgres.part:PART"}
"""Stores other than SQLite; loaded when `store` names one."""

DOCUMENTS = {"postgres": "goclaw.durable.store.postgres.documents:PART"}
"""Who changes files of the state folder that such a store has as documents."""

OWNERSHIPS = {
    "sqlite": "goclaw.durable.engine.sessions:ALL",
    "postgres": "goclaw.durable.engine.leased_sessions:LEASED",
}
"""Which sessions a process works on, by the kind of its store."""

OWNERS = {"sqlite": "goclaw.gateway.intake.gateway:HERE", "postgres": "goclaw.gateway.intake.owners:OWNERS"}
"""How the gateway of a process reaches the owners of sessions, by the kind of its store."""

LEASES = {"postgres": "goclaw.durable.store.postgres.ownership:PART"}
"""How processes that share a store divide the sessions; loaded where they do."""

RESERVATIONS = {"postgres": "goclaw.durable.store.postgres.reservations:PART"}
"""Where processes that share a store keep what their running requests may cost; loaded where they do."""

REGISTRIES = {
    "syncing": "goclaw.extensions.registries.syncing:SYNCING",
    "publishing": "goclaw.extensions.registries.publishing:PUBLISHER",
    "file": "goclaw.extensions.registries.backup:PART",
}
"""Modules loaded when there are `registries`; the last one by backups."""

DOCTOR_CHECKS = {
    "registries": "goclaw.extensions.registries.doctor:CHECK",
}
"""Checks of `goclaw doctor` that extensions bring."""

TOOL_SOURCES = {
    "cli": "goclaw.tools.builtin.cli_source:SOURCE",
    "agents": "goclaw.tools.builtin.exported:SOURCE",
    "mcp": "goclaw.tools.builtin.mcp_source:SOURCE",
}

MADE_OF = {
    "cli": "tools.cli",
    "agents": "agents.exported_sets",
    "mcp": "mcp_servers",
}
"""Configuration section of each source of tools: the source is loaded when the section is not empty."""

MCP = {
    "client": "goclaw.tools.mcp.connection:CLIENT",
    "workshop": "goclaw.tools.builtin.mcp_tools:WORKSHOP",
    "finders": "goclaw.extensions.registries.finder:FINDERS",
}
"""Modules loaded when MCP servers are configured: their libraries take seconds."""

PACKAGED = "goclaw.tools.toolkit.parts:PACKAGED"
"""Reader of the agents and toolsets of installed packages; loaded when there are any."""

PLUGIN_FILES = "goclaw.tools.toolkit.plugin_loading:PART"
"""Loader of one-file plugins; loaded with the first file."""

COMMANDS = {
    "start": "goclaw.gateway.intake.commands.conversation:START",
    "status": "goclaw.gateway.intake.commands.status:STATUS",
    "context": "goclaw.gateway.intake.commands.conversation:CONTEXT",
    "compact": "goclaw.gateway.intake.commands.conversation:COMPACT",
    "clear": "goclaw.gateway.intake.commands.conversation:CLEAR",
    "new": "goclaw.gateway.intake.commands.conversation:NEW",
    "cleartool": "goclaw.gateway.intake.commands.conversation:CLEARTOOL",
    "stop": "goclaw.gateway.intake.commands.turns:STOP",
    "pause": "goclaw.gateway.intake.commands.turns:PAUSE",
    "resume": "goclaw.gateway.intake.commands.turns:RESUME",
    "queue": "goclaw.gateway.intake.commands.turns:QUEUE",
    "mode": "goclaw.gateway.intake.commands.approvals:MODE",
    "model": "goclaw.gateway.intake.commands.agents:MODEL",
    "agent": "goclaw.gateway.intake.commands.agents:AGENT",
    "agents": "goclaw.gateway.intake.commands.agents:AGENTS",
    "usage": "goclaw.gateway.intake.commands.status:USAGE",
    "memory": "goclaw.gateway.intake.commands.status:MEMORY",
    "forget": "goclaw.gateway.intake.commands.conversation:FORGET",
    "approve": "goclaw.gateway.intake.commands.approvals:APPROVE",
    "deny": "goclaw.gateway.intake.commands.approvals:DENY",
    "approvals": "goclaw.gateway.intake.commands.approvals:APPROVALS",
    "guard": "goclaw.gateway.intake.commands.approvals:GUARD",
    "blocked": "goclaw.gateway.intake.commands.people:BLOCKED",
    "pair": "goclaw.gateway.intake.commands.people:PAIR",
    "sessions": "goclaw.gateway.intake.commands.conversation:SESSIONS",
    "whoami": "goclaw.gateway.intake.commands.people:WHOAMI",
    "tools": "goclaw.gateway.intake.commands.agents:TOOLS",
    "tool": "goclaw.gateway.intake.commands.agents:TOOL",
    "remind": "goclaw.gateway.intake.commands.schedules:REMIND",
    "schedule": "goclaw.gateway.intake.commands.schedules:SCHEDULE",
    "heartbeat": "goclaw.gateway.intake.commands.schedules:HEARTBEAT",
    "help": "goclaw.gateway.intake.commands.people:HELP",
}

GRAMMARS = {
    "bash": "goclaw.tools.execution.sandbox.shell_grammar:GRAMMAR",
}

TEMPLATES = {
    "jinja": "goclaw.tools.jinja_templates:ENGINE",
}

NOTEBOOKS = {
    "nbformat": "goclaw.extensions.notebook.notebooks:NOTEBOOKS",
}

DOCUMENT_READERS = {
    "documents": "goclaw.extensions.documents.reading:READER",
}

WEB_SEARCHES = {
    "searxng": "goclaw.common.net.search.providers:SEARXNG",
    "brave": "goclaw.common.net.search.providers:BRAVE",
    "tavily": "goclaw.common.net.search.providers:TAVILY",
    "duckduckgo": "goclaw.common.net.search.providers:DUCKDUCKGO",
}

TRANSCRIBERS = {
    "openai": "goclaw.llm.openai_transcription:TRANSCRIBER",
}

EMBEDDERS = {
    "ollama": "goclaw.memory.embedders.remote:OLLAMA",
    "sentence-transformers": "goclaw.extensions.local_embedders.local:EMBEDDER",
    "openai": "goclaw.memory.embedders.remote:OPENAI",
}
"""In the order that `memory.embedder: auto` follows; those that need an address or a key are not asked."""

SANDBOXES = {
    "bubblewrap": "goclaw.tools.execution.sandbox.warm:SANDBOX",
    "broker": "goclaw.tools.execution.sandbox.broker:BROKER",
    "off": "goclaw.tools.execution.sandbox.broker:OFF",
}

KINDS = {
    "agents": "goclaw.tools.toolkit.parts:AgentPart",
    "channels": "goclaw.channels.base:ChannelPart",
    "commands": "goclaw.gateway.intake.commands.base:Command",
    "embedders": "goclaw.memory.embedders.base:EmbedderPart",
    "hooks": "goclaw.tools.hooks.base:HookPart",
    "mcp": "goclaw.tools.mcp.declared:Declared",
    "providers": "goclaw.llm.base:Provider",
    "tool_sources": "goclaw.tools.toolkit.sources:SourcePart",
    "tools": "goclaw.tools.toolkit.base:Tool",
    "toolsets": "goclaw.tools.toolkit.parts:ToolsetPart",
    "transcribers": "goclaw.llm.transcription:TranscriberPart",
}
"""Sections of the entry-point group `goclaw.plugins`, and the class of the parts that a package adds to each."""
