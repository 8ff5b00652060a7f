"""Mutation testing: one small fault at a time in the code that bounds, sums and counts; tests must notice."""
