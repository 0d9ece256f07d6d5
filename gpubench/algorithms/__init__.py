"""One file per algorithm; the registry finds them by scanning this folder."""
