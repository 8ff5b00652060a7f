"""What all MovieLens data sets have in common."""

LICENSE = (
    "MovieLens data is for research under GroupLens' terms: no redistribution without permission, no "
    "commercial use without permission, acknowledge it in publications. See the README in the archive."
)
HOST = "https://files.grouplens.org/datasets/movielens"
