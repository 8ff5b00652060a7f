"""The Million Song Dataset: who played what how often (the Echo Nest Taste Profile Subset)."""

from apportion.data.datasets.archive import DataSet

DATA_SET = DataSet(
    name="msd",
    ratings="train_triplets.txt",
    titles=None,
    separator="\t",
    header=False,
    rating_range=None,
    url="http://millionsongdataset.com/sites/default/files/challenge/train_triplets.txt.zip",
    md5=None,
    license="The Echo Nest Taste Profile Subset is for research; see millionsongdataset.com.",
    numbered=False,
)
