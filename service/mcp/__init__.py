"""Tools for assistants that speak the Model Context Protocol; needs the extra ``mcp``."""
