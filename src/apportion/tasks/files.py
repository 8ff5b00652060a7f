"""Folders of task models on disk."""

from pathlib import Path

from apportion.folders.files import check_target, check_there, folder_at, read_files, save_files
from apportion.folders.kinds import TASK_MODELS
from apportion.tasks.contents import pack, unpack
from apportion.tasks.models import ClassModels, TaskModel, TaskModels


def save(model: TaskModel, folder: str | Path) -> None:
    """Write released models to a folder; what is there already is replaced at the end."""
    folder = folder_at("save", folder)
    check_target(folder)
    contents = pack(model)
    unpack(folder, contents)  # what could not be read back is not written
    save_files(folder, contents)


def load(folder: str | Path) -> TaskModels | ClassModels:
    """Read models that ``save`` wrote. They predict as those that were saved."""
    folder = Path(folder)
    check_there(folder)
    released = unpack(folder, read_files(folder, TASK_MODELS))
    return ClassModels(released) if released.prediction is None else TaskModels(released)
