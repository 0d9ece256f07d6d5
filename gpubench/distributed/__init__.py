"""Several ranks: their processes, data transport between them, and the division into planes."""
