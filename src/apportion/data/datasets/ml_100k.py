"""MovieLens 100K."""

from __future__ import annotations

from apportion.data.datasets.archive import DataSet
from apportion.data.datasets.movielens import HOST, LICENSE
from apportion.frames import pl

# The genres of ml-100k, in the order of its flags.
_GENRES = (
    "unknown", "Action", "Adventure", "Animation", "Children", "Comedy", "Crime", "Documentary", "Drama",
    "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War",
    "Western",
)  # fmt: skip


def _titles_with_flags(content: str) -> pl.DataFrame:
    """The titles of ml-100k: id | title | two dates | address | a flag for each genre."""
    rows = [line.split("|") for line in content.split("\n") if line.strip()]
    genres = [
        "|".join(name for name, flag in zip(_GENRES, row[5:], strict=True) if flag.strip() == "1")
        for row in rows
    ]
    return pl.DataFrame(
        {"item": [int(row[0]) for row in rows], "title": [row[1] for row in rows], "genres": genres}
    )


DATA_SET = DataSet(
    name="ml-100k",
    ratings="u.data",
    titles="u.item",
    separator="\t",
    header=False,
    rating_range=(1.0, 5.0),
    url=f"{HOST}/ml-100k.zip",
    md5="0e33842e24a9c977be4e0107933c0723",
    license=LICENSE,
    encoding="latin-1",
    read_titles=_titles_with_flags,
)
