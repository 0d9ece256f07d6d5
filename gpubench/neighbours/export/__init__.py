"""`gpubench export`: the source of a search, to take into other code."""
