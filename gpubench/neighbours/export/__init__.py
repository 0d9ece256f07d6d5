"""`gpubench export`: write the source of a search, for use in other code."""
