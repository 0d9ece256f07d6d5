"""Compare two versions of the code: same, faster, slower, or inconclusive."""
