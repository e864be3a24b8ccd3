"""Who is calling: API keys, their organisations and what they may do."""
