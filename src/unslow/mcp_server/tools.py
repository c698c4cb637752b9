"""All tools, by what the user allows; nothing here needs the SDK."""

from unslow.mcp_server.changing import changing_tools
from unslow.mcp_server.plans import Plans
from unslow.mcp_server.reading import Allowed, reading_tools
from unslow.mcp_server.tool import Tool


def tools_for(allowed: Allowed) -> dict[str, Tool]:
    """The tools that the user lets agents have, by name."""
    tools = {tool.name: tool for tool in reading_tools(allowed)}
    if allowed.apply:
        plans = Plans()
        tools["plan"] = plans.keeping(tools["plan"])
        tools |= {tool.name: tool for tool in changing_tools(allowed, plans)}
    return tools
