"""Files, caches, locks, child processes and messages: nothing of the package lies below."""
