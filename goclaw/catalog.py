"""THE list: every part that can be added, one line each. Strings only; a part is imported when it is first used.

A new channel, provider, tool or command is one new file and one new line here. Third parties add theirs through the
entry-point group `goclaw.plugins`, which feeds the same list (`plugins.py`).
"""

CHANNELS = {
    "memory": "goclaw.channels.memory:CHANNEL",
    "telegram": "goclaw.channels.telegram:CHANNEL",
}

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
    "multi_edit": "goclaw.tools.multi_edit:multi_edit",
    "notebook_edit": "goclaw.tools.notebook_edit:notebook_edit",
    "glob": "goclaw.tools.glob:glob",
    "list": "goclaw.tools.list:list_",
    "search": "goclaw.tools.search:search",
    "exec": "goclaw.tools.exec:exec_",
    "bg_exec": "goclaw.tools.bg_exec:bg_exec",
    "task_output": "goclaw.tools.task_output:task_output",
    "task_input": "goclaw.tools.task_input:task_input",
    "task_stop": "goclaw.tools.task_stop:task_stop",
    "task_list": "goclaw.tools.task_list:task_list",
    "ssh_exec": "goclaw.tools.ssh_exec:ssh_exec",
    "web_fetch": "goclaw.tools.web_fetch:web_fetch",
    "web_search": "goclaw.tools.web_search:web_search",
    "message": "goclaw.tools.message:message",
    "memory_search": "goclaw.tools.memory_search:memory_search",
    "memory_list": "goclaw.tools.memory_list:memory_list",
    "memory_get": "goclaw.tools.memory_get:memory_get",
    "memory_read": "goclaw.tools.memory_read:memory_read",
    "memory_write": "goclaw.tools.memory_write:memory_write",
    "memory_delete": "goclaw.tools.memory_delete:memory_delete",
    "transcript_search": "goclaw.tools.transcript_search:transcript_search",
    "memento": "goclaw.tools.memento:memento",
    "ask_user": "goclaw.tools.ask_user:ask_user",
    "todo_write": "goclaw.tools.todo_write:todo_write",
    "agent": "goclaw.tools.agent:agent",
    "command": "goclaw.tools.command:command",
    "config": "goclaw.tools.config:config",
    "exit_plan_mode": "goclaw.tools.exit_plan_mode:exit_plan_mode",
    "tool_search": "goclaw.tools.tool_search:tool_search",
    "tool_call": "goclaw.tools.tool_call:tool_call",
}

GATED_TOOLS = {
    "teams": {
        "team_create": "goclaw.tools.team_create:team_create",
        "send_message": "goclaw.tools.send_message:send_message",
        "team_delete": "goclaw.tools.team_delete:team_delete",
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
"""Names of tools in other systems, which models know; see `toolkit.aliases`."""

SERVERS = {
    "mcp": "goclaw.servers.mcp.http:SERVER",
}
"""Listeners whose libraries are loaded only where the configuration wants them."""

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

COMMANDS = {
    "start": "goclaw.commands.start:COMMAND",
    "status": "goclaw.commands.status:COMMAND",
    "context": "goclaw.commands.context:COMMAND",
    "compact": "goclaw.commands.compact:COMMAND",
    "clear": "goclaw.commands.clear:COMMAND",
    "new": "goclaw.commands.new:COMMAND",
    "cleartool": "goclaw.commands.cleartool:COMMAND",
    "stop": "goclaw.commands.stop:COMMAND",
    "pause": "goclaw.commands.pause:COMMAND",
    "resume": "goclaw.commands.resume:COMMAND",
    "queue": "goclaw.commands.queue:COMMAND",
    "mode": "goclaw.commands.mode:COMMAND",
    "model": "goclaw.commands.model:COMMAND",
    "agent": "goclaw.commands.agent:COMMAND",
    "agents": "goclaw.commands.agents:COMMAND",
    "usage": "goclaw.commands.usage:COMMAND",
    "memory": "goclaw.commands.memory:COMMAND",
    "forget": "goclaw.commands.forget:COMMAND",
    "approve": "goclaw.commands.approve:COMMAND",
    "deny": "goclaw.commands.deny:COMMAND",
    "approvals": "goclaw.commands.approvals:COMMAND",
    "pair": "goclaw.commands.pair:COMMAND",
    "sessions": "goclaw.commands.sessions:COMMAND",
    "whoami": "goclaw.commands.whoami:COMMAND",
    "tools": "goclaw.commands.tools:COMMAND",
    "tool": "goclaw.commands.tool:COMMAND",
    "help": "goclaw.commands.help:COMMAND",
}

GRAMMARS = {
    "bash": "goclaw.sandbox.plain:GRAMMAR",
}

TEMPLATES = {
    "jinja": "goclaw.toolkit.jinja:ENGINE",
}

NOTEBOOKS = {
    "nbformat": "goclaw.tools.notebooks:NOTEBOOKS",
}

WEB_SEARCHES = {
    "searxng": "goclaw.websearch.searxng:SEARCH",
    "brave": "goclaw.websearch.brave:SEARCH",
    "tavily": "goclaw.websearch.tavily:SEARCH",
    "duckduckgo": "goclaw.websearch.duckduckgo:SEARCH",
}

TRANSCRIBERS = {
    "openai": "goclaw.transcribers.openai:TRANSCRIBER",
}

EMBEDDERS = {
    "ollama": "goclaw.embedders.ollama:EMBEDDER",
    "sentence-transformers": "goclaw.embedders.local:EMBEDDER",
    "openai": "goclaw.embedders.openai:EMBEDDER",
}
"""In the order in which `memory.embedder: auto` asks them; those that need an address or a key are not asked."""

SANDBOXES = {
    "bubblewrap": "goclaw.sandbox.bubblewrap:SANDBOX",
    "broker": "goclaw.sandbox.broker:SANDBOX",
    "off": "goclaw.sandbox.off:SANDBOX",
}
