"""Several ranks: their processes, what carries rows between them, and which has which planes."""
