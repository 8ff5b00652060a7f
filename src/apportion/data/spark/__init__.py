"""Rows that lie in Spark: read from frames, sharded by user, stored."""
