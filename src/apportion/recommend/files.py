"""Model folders of recommenders: a released item model on disk.

Nothing in a folder is executable, and nothing is secret: the noise key is no part of a released model.
"""

from pathlib import Path
from typing import Any

from apportion.folders.files import check_target, check_there, folder_at, read_files, save_files
from apportion.folders.kinds import ITEMS
from apportion.recommend.contents import pack, unpack
from apportion.recommend.recommender import Recommender


def save(model: Recommender, folder: str | Path, titles: Any = None) -> None:
    """Write what a model has released to a folder; a model that is there already is replaced at the end.

    Args:
        model: a trained model.
        folder: new, empty, or holding a model. Other files in it stay; a signature of the old model goes.
        titles: of items, as {id: title} or as a table with columns item and title. Items that it does
            not name keep the title that they have, or get an empty one.
    """
    folder = folder_at("save", folder)
    check_target(folder)
    contents = pack(model.released, titles)
    unpack(folder, contents)  # what could not be read back is not written
    save_files(folder, contents)


def load(folder: str | Path) -> Recommender:
    """Read a model that ``save`` wrote. It recommends and predicts as the one that was saved.

    Whatever is missing, damaged or not of this format is a ``DataError`` that names the file.
    """
    folder = Path(folder)
    check_there(folder)
    return Recommender(unpack(folder, read_files(folder, ITEMS)))
