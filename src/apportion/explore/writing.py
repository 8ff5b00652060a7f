"""The explorer on disk, each file written whole or not at all."""

from pathlib import Path

from apportion.data.files import check_folder, written_whole
from apportion.errors import DataError
from apportion.explore.page import Explorer, folder_files, single_file

INDEX = "index.html"


def write_folder(explorer: Explorer, folder: Path) -> int:
    """Write the page's files into a folder that is new, empty, or holds such a page; how many bytes."""
    check_folder(folder)
    if folder.exists() and any(folder.iterdir()) and not (folder / INDEX).exists():
        raise DataError(f"{folder} is not empty and holds no such page; choose another folder")
    files = folder_files(explorer)
    # The page itself comes last: it is there once all that it reads is.
    for name in sorted(files, key=lambda name: name == INDEX):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as temporary:
            temporary.write_bytes(files[name])
    return sum(map(len, files.values()))


def write_single_file(explorer: Explorer, path: Path) -> int:
    """Write the page as one file; how many bytes."""
    content = single_file(explorer)
    with written_whole(path) as temporary:
        temporary.write_bytes(content)
    return len(content)
