"""What the grid emits at this hour, from public services, kept fresh in the background.

Nothing here stands on the way of an estimate: estimates use the catalog, or figures that the caller
gives. A caller who wants this hour's figure asks for it, and states it in the request.
"""
