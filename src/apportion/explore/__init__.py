"""A static page that recommends in the browser, from a released model and a person's own list alone."""

from apportion.explore.compact import compact, exact
from apportion.explore.groups import groups_of
from apportion.explore.page import Explorer, folder_files, single_file
from apportion.explore.quality import Line, Quality, chosen_panel, of_outlook, read_quality
from apportion.explore.reports import evaluation_page, plan_page, report_page, write_page
from apportion.explore.serving import serve
from apportion.explore.writing import write_folder, write_single_file

__all__ = [
    "Explorer",
    "Line",
    "Quality",
    "chosen_panel",
    "compact",
    "evaluation_page",
    "exact",
    "folder_files",
    "groups_of",
    "of_outlook",
    "plan_page",
    "read_quality",
    "report_page",
    "serve",
    "single_file",
    "write_folder",
    "write_page",
    "write_single_file",
]
