"""Files, caches, locks, child processes and messages: the lowest layer of the package."""
