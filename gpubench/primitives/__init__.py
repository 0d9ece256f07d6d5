"""Building blocks that several algorithms launch: cell ids, scans, radix sort."""
