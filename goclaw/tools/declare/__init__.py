"""Agents, toolsets, tools, policies, MCP servers and registries in Python (docs/declare.md).

    @tool(side_effect=SideEffect.READ_ONLY)
    def search_docs(query: str, limit: int = 5) -> list[str]:
        '''Search indexed documentation.'''
        return index.search(query)[:limit]

    CHAT = agent("chat", "Conversational runner.", uses=[search_docs], policy=RunPolicy(max_tool_calls=8))

Keywords stand for the words of the language (`use`, `run_policy`, `confirmation` …), which make the same records.
Plain functions that return plain values: they make the settings that the configuration would have made, and tools.
`load_config` puts the declarations of installed packages below the operator's layers, key by key
(`config.packaged`; `toolkit.parts` reads them, through the catalogue), so that the daemon and every
command have the same. A declaration that cannot be used is left out and named. Nothing below this room knows who
declared an agent. `stop`, `status`, `logs`, `audit` and `tui` load no foreign code unless the configuration consists
of nothing else.
"""

import inspect

from goclaw.common.core.plugins import API_VERSION
from goclaw.common.specs import Risk, SideEffect
from goclaw.tools.declare.agents import (
    agent,
    agent_toolset,
    disable_agent_docs,
    export,
    model,
    own_tools,
    system_prompt,
    tools_profile,
    use,
    use_agent_toolset,
    use_selected,
)
from goclaw.tools.declare.mcp import (
    dynamic_prompt,
    mcp,
    mcp_server,
    mcp_tool,
    notification,
    protocol_version,
    resource,
    static_prompt,
    subscription,
    watchable_resource,
)
from goclaw.tools.declare.options import description, tags, typed
from goclaw.tools.declare.policies import (
    RunPolicy,
    after_system,
    after_tools,
    budget,
    cache,
    compress,
    default_caps,
    history,
    interrupts_allowed,
    keep_recent_turns,
    max_consecutive_failed_tool_calls,
    max_cost,
    max_tokens,
    max_tool_calls,
    on_missing_fields,
    plan,
    run_policy,
    time_budget,
    timing,
    tools,
)
from goclaw.tools.declare.registries import (
    api_version,
    cache_ttl,
    exclude,
    federation,
    from_registry,
    include,
    publish_as,
    publish_to,
    registry,
    retry,
    security,
    sync_interval,
    timeout,
    url,
    version,
)
from goclaw.tools.declare.shapes import args, attribute, field, required, returns
from goclaw.tools.declare.tools import (
    annotations,
    artifact,
    bind_to,
    bounded_result,
    call_hint_template,
    confirmation,
    inject,
    passthrough,
    prompt,
    result_hint_template,
    result_reminder,
    title,
    tool,
)
from goclaw.tools.declare.toolsets import from_mcp, mcp_toolset, toolset

__all__ = [
    "API_VERSION", "Risk", "RunPolicy", "SideEffect", "after_system", "after_tools", "agent", "agent_toolset",
    "annotations", "api_version", "args", "artifact", "attribute", "bind_to", "bounded_result", "budget", "cache",
    "cache_ttl", "call_hint_template", "compress", "confirmation", "default_caps", "description", "disable_agent_docs",
    "dynamic_prompt", "exclude", "export", "federation", "field", "from_mcp", "from_registry", "history", "include",
    "inject", "interrupts_allowed", "keep_recent_turns", "max_consecutive_failed_tool_calls", "max_cost",
    "max_tokens", "max_tool_calls", "mcp", "mcp_server", "mcp_tool", "mcp_toolset", "model", "notification",
    "on_missing_fields", "own_tools", "passthrough", "plan", "prompt", "protocol_version", "publish_as",
    "publish_to", "registry", "required", "resource", "result_hint_template", "result_reminder", "retry", "returns",
    "run_policy", "security", "static_prompt", "subscription", "sync_interval", "system_prompt", "tags",
    "time_budget", "timeout", "timing", "title", "tool", "tools", "tools_profile", "toolset", "url", "use",
    "use_agent_toolset", "use_selected", "version", "watchable_resource",
]  # fmt: skip  # a list to look through, not to read

# Every word of the language names an argument of the wrong type. The words among themselves call the plain functions.
globals().update({name: typed(word) for name in __all__ if inspect.isfunction(word := globals()[name])})
