"""Several ranks: their processes, what carries rows between them, and who has which planes."""
