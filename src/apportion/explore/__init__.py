"""A static page that recommends in the browser, from a released model and a person's own list alone."""

from apportion.explore.page import Explorer, folder_files, single_file
from apportion.explore.serving import serve
from apportion.explore.writing import write_folder, write_single_file

__all__ = [
    "Explorer",
    "folder_files",
    "serve",
    "single_file",
    "write_folder",
    "write_single_file",
]
