"""Model folders of any kind: which it is, its model, whether it is true, and who stands by it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.folders.comparing import Check
from apportion.folders.files import folder_at, kind_in, sign_files
from apportion.folders.kinds import TASK_MODELS
from apportion.recommend import files, verify
from apportion.recommend.recommender import Recommender
from apportion.tasks import files as task_files
from apportion.tasks import verify as task_verify
from apportion.tasks.models import ClassModels, TaskModels

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )


def load(folder: str | Path) -> Any:
    """Read a model that ``save`` wrote, a recommender or the models of tasks. It does what that one did.

    Whatever is missing, damaged or not of this format is a ``DataError`` that names the file.

    >>> import apportion as ap, tempfile
    >>> data = ap.simulate_tasks(users=300, tasks=5, tasks_per_user=2)
    >>> folder = tempfile.mkdtemp() + "/model"
    >>> ap.MultiTaskRidge(epsilon=5.0).fit(data).save(folder)
    >>> ap.load(folder).predict(task=3, features=[[0.1, 0.2, 0.0, 0.3, 0.1]]).shape
    (1,)
    """
    return load_any(folder_at("load", folder))


def load_any(folder: Path) -> Recommender | TaskModels | ClassModels:
    """The same, with its types."""
    is_of_tasks = kind_in(folder) is TASK_MODELS
    return task_files.load(folder) if is_of_tasks else files.load(folder)


def verify_any(folder: Path, key: "Ed25519PublicKey | None" = None) -> list[Check]:
    """Compare what a model folder of any kind says with what follows from it."""
    of_tasks = kind_in(folder) is TASK_MODELS
    return task_verify.verify(folder, key) if of_tasks else verify.verify(folder, key)


def sign(folder: str | Path, key: "Ed25519PrivateKey") -> str:
    """Sign the files of a model folder; the name of the key, which is its public part."""
    load_any(Path(folder))  # nobody should stand by what cannot be read
    return sign_files(Path(folder), key)
