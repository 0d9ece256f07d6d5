"""Other people's searches and sorts: a file an adapter."""
