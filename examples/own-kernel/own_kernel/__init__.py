"""Cell lists of our own, to be checked and timed by gpubench."""
