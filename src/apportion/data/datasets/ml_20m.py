"""MovieLens 20M."""

from apportion.data.datasets.archive import DataSet
from apportion.data.datasets.movielens import HOST, LICENSE

DATA_SET = DataSet(
    name="ml-20m",
    ratings="ratings.csv",
    titles="movies.csv",
    separator=",",
    header=True,
    rating_range=(0.5, 5.0),
    url=f"{HOST}/ml-20m.zip",
    md5="cd245b17a1ae2cc31bb14903e1204af3",
    license=LICENSE,
)
