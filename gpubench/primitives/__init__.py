"""Building blocks shared by several algorithms: scans, sorts, queries, filters."""
