"""MovieLens 10M."""

from apportion.data.datasets.archive import DataSet
from apportion.data.datasets.movielens import HOST, LICENSE

DATA_SET = DataSet(
    name="ml-10m",
    ratings="ratings.dat",
    titles="movies.dat",
    separator="::",
    header=False,
    rating_range=(0.5, 5.0),
    url=f"{HOST}/ml-10m.zip",
    md5="ce571fd55effeba0271552578f2648bd",
    license=LICENSE,
)
