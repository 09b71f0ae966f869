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
    "read": "goclaw.tools.read:read",
    "write": "goclaw.tools.write:write",
    "edit": "goclaw.tools.edit:edit",
    "multi_edit": "goclaw.tools.edit:multi_edit",
    "notebook_edit": "goclaw.tools.notebook_edit:notebook_edit",
    "glob": "goclaw.tools.listing:glob",
    "list": "goclaw.tools.listing:list_",
    "search": "goclaw.tools.search:search",
    "exec": "goclaw.tools.exec:exec_",
    "bg_exec": "goclaw.tools.exec:bg_exec",
    "task_output": "goclaw.tools.background_tasks:task_output",
    "task_input": "goclaw.tools.background_tasks:task_input",
    "task_stop": "goclaw.tools.background_tasks:task_stop",
    "task_list": "goclaw.tools.background_tasks:task_list",
    "ssh_exec": "goclaw.tools.ssh_exec:ssh_exec",
    "web_fetch": "goclaw.tools.web:web_fetch",
    "web_search": "goclaw.tools.web:web_search",
    "message": "goclaw.tools.message:message",
    "memory_search": "goclaw.tools.memory_files:memory_search",
    "memory_list": "goclaw.tools.memory_files:memory_list",
    "memory_get": "goclaw.tools.memory_files:memory_get",
    "memory_read": "goclaw.tools.memory_values:memory_read",
    "memory_write": "goclaw.tools.memory_values:memory_write",
    "memory_delete": "goclaw.tools.memory_values:memory_delete",
    "transcript_search": "goclaw.tools.transcript_search:transcript_search",
    "memento": "goclaw.tools.memento:memento",
    "ask_user": "goclaw.tools.ask_user:ask_user",
    "schedule": "goclaw.tools.schedule:schedule",
    "todo_write": "goclaw.tools.planning:todo_write",
    "agent": "goclaw.tools.agent:agent",
    "command": "goclaw.tools.gateway_control:command",
    "config": "goclaw.tools.gateway_control:config",
    "exit_plan_mode": "goclaw.tools.planning:exit_plan_mode",
    "tool_search": "goclaw.tools.tool_search:tool_search",
    "tool_call": "goclaw.tools.tool_search:tool_call",
}

GATED_TOOLS = {
    "teams": {
        "team_create": "goclaw.tools.teams:team_create",
        "send_message": "goclaw.tools.teams:send_message",
        "team_delete": "goclaw.tools.teams:team_delete",
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
    "mcp": "goclaw.servers.mcp.http:SERVER",
}
"""Listeners whose libraries are loaded only where the configuration wants them."""

ROUTES = {
    "api": "goclaw.servers.api.routes:API",
    "metrics": "goclaw.servers.metrics.serving:METRICS",
    "openai": "goclaw.servers.openai.routes:OPENAI",
    "web": "goclaw.servers.web.routes:WEB",
    "webhooks": "goclaw.servers.webhooks.receiving:WEBHOOKS",
}
"""Routes of the HTTP listener by switch of `http`, or by section of the configuration that is not empty."""

STORES = {"postgres": "goclaw.store.postgres.part:PART"}
"""Stores beside SQLite; loaded when `store` names one."""

OWNERSHIPS = {"postgres": "goclaw.store.postgres.ownership:PART"}
"""How processes that share a store divide the sessions; loaded where they do, as `SHARING`."""

EXCHANGES = {"postgres": "goclaw.store.postgres.exchange:PART"}
"""How they send each other what happens in sessions; loaded as those."""

RESERVATIONS = {"postgres": "goclaw.store.postgres.reservations:PART"}
"""Where processes that share a store keep what their running requests may cost; loaded where they do."""

SHARING = "goclaw.app.sharing:SHARING"
"""The daemon beside others on one store."""

REGISTRIES = {
    "syncing": "goclaw.registries.syncing:SYNCING",
    "publishing": "goclaw.registries.publishing:PUBLISHER",
}
"""Modules loaded when there are `registries`."""

TOOL_SOURCES = {
    "cli": "goclaw.tools.cli_source:SOURCE",
    "agents": "goclaw.tools.exported:SOURCE",
    "mcp": "goclaw.tools.mcp_source:SOURCE",
}

MADE_OF = {
    "cli": "tools.cli",
    "agents": "agents.exported_sets",
    "mcp": "mcp_servers",
}
"""Configuration section of each source of tools: the source is loaded when the section is not empty."""

MCP = {
    "client": "goclaw.mcp.connection:CLIENT",
    "workshop": "goclaw.tools.mcp_tools:WORKSHOP",
    "finders": "goclaw.toolkit.from_registry:FINDERS",
}
"""Modules loaded when MCP servers are configured: their libraries take seconds."""

PACKAGED = "goclaw.toolkit.parts:PACKAGED"
"""Reader of the agents and toolsets of installed packages; loaded when there are any."""

PLUGIN_FILES = "goclaw.toolkit.plugin_loading:PART"
"""Loader of one-file plugins; loaded with the first file."""

COMMANDS = {
    "start": "goclaw.gateway.commands.conversation:START",
    "status": "goclaw.gateway.commands.status:STATUS",
    "context": "goclaw.gateway.commands.conversation:CONTEXT",
    "compact": "goclaw.gateway.commands.conversation:COMPACT",
    "clear": "goclaw.gateway.commands.conversation:CLEAR",
    "new": "goclaw.gateway.commands.conversation:NEW",
    "cleartool": "goclaw.gateway.commands.conversation:CLEARTOOL",
    "stop": "goclaw.gateway.commands.turns:STOP",
    "pause": "goclaw.gateway.commands.turns:PAUSE",
    "resume": "goclaw.gateway.commands.turns:RESUME",
    "queue": "goclaw.gateway.commands.turns:QUEUE",
    "mode": "goclaw.gateway.commands.approvals:MODE",
    "model": "goclaw.gateway.commands.agents:MODEL",
    "agent": "goclaw.gateway.commands.agents:AGENT",
    "agents": "goclaw.gateway.commands.agents:AGENTS",
    "usage": "goclaw.gateway.commands.status:USAGE",
    "memory": "goclaw.gateway.commands.status:MEMORY",
    "forget": "goclaw.gateway.commands.conversation:FORGET",
    "approve": "goclaw.gateway.commands.approvals:APPROVE",
    "deny": "goclaw.gateway.commands.approvals:DENY",
    "approvals": "goclaw.gateway.commands.approvals:APPROVALS",
    "pair": "goclaw.gateway.commands.people:PAIR",
    "sessions": "goclaw.gateway.commands.conversation:SESSIONS",
    "whoami": "goclaw.gateway.commands.people:WHOAMI",
    "tools": "goclaw.gateway.commands.agents:TOOLS",
    "tool": "goclaw.gateway.commands.agents:TOOL",
    "remind": "goclaw.gateway.commands.schedules:REMIND",
    "schedule": "goclaw.gateway.commands.schedules:SCHEDULE",
    "heartbeat": "goclaw.gateway.commands.schedules:HEARTBEAT",
    "help": "goclaw.gateway.commands.people:HELP",
}

GRAMMARS = {
    "bash": "goclaw.execution.sandbox.shell_grammar:GRAMMAR",
}

TEMPLATES = {
    "jinja": "goclaw.toolkit.jinja:ENGINE",
}

NOTEBOOKS = {
    "nbformat": "goclaw.tools.notebooks:NOTEBOOKS",
}

WEB_SEARCHES = {
    "searxng": "goclaw.net.search.providers:SEARXNG",
    "brave": "goclaw.net.search.providers:BRAVE",
    "tavily": "goclaw.net.search.providers:TAVILY",
    "duckduckgo": "goclaw.net.search.providers:DUCKDUCKGO",
}

TRANSCRIBERS = {
    "openai": "goclaw.llm.openai_transcription:TRANSCRIBER",
}

EMBEDDERS = {
    "ollama": "goclaw.memory.embedders.remote:OLLAMA",
    "sentence-transformers": "goclaw.memory.embedders.local:EMBEDDER",
    "openai": "goclaw.memory.embedders.remote:OPENAI",
}
"""In the order in which `memory.embedder: auto` asks them; those that need an address or a key are not asked."""

SANDBOXES = {
    "bubblewrap": "goclaw.execution.sandbox.warm:SANDBOX",
    "broker": "goclaw.execution.sandbox.broker:BROKER",
    "off": "goclaw.execution.sandbox.broker:OFF",
}

KINDS = {
    "agents": "goclaw.toolkit.parts:AgentPart",
    "channels": "goclaw.channels.base:ChannelPart",
    "commands": "goclaw.gateway.commands.base:Command",
    "embedders": "goclaw.memory.embedders.base:EmbedderPart",
    "hooks": "goclaw.hooks.base:HookPart",
    "mcp": "goclaw.mcp.declared:Declared",
    "providers": "goclaw.llm.base:Provider",
    "tool_sources": "goclaw.toolkit.sources:SourcePart",
    "tools": "goclaw.toolkit.base:Tool",
    "toolsets": "goclaw.toolkit.parts:ToolsetPart",
    "transcribers": "goclaw.llm.transcription:TranscriberPart",
}
"""Sections of the entry-point group `goclaw.plugins`, and the class of the parts that a package adds to each."""
