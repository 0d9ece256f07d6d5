"""One file an algorithm; the registry finds them by scanning this folder."""
