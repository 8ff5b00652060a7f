"""MovieLens 1M."""

from apportion.data.datasets.archive import DataSet
from apportion.data.datasets.movielens import HOST, LICENSE

DATA_SET = DataSet(
    name="ml-1m",
    ratings="ratings.dat",
    titles="movies.dat",
    separator="::",
    header=False,
    rating_range=(1.0, 5.0),
    url=f"{HOST}/ml-1m.zip",
    md5="c4d9eecfca2ab87c1945afe126590906",
    license=LICENSE,
    encoding="latin-1",
)
