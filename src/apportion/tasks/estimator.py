"""Parameters as in scikit-learn, and what else it expects of an estimator."""

import inspect
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self
from warnings import warn

from apportion.accounts import Budget
from apportion.accounts.places import is_ours, mark_resumable, remove
from apportion.errors import ApportionError, BudgetFileError, ParameterError
from apportion.folders.files import digest_of

Kind = Literal["classifier", "regressor"]
# Parameters are shown up to this length: two lines of a terminal.
_LONGEST_REPR = 130


class Estimator:
    """Parameters by name, as scikit-learn's ``clone`` and its searches expect them.

    Attributes
        checkpoint_: the folder in which what the last training released is kept, if it has one.
    """

    checkpoint_: Path
    released_: Any
    _paid_by: Budget
    _copy: int
    _copies: int

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters by name; ``deep`` also those of groups, as ``group__name``."""
        own = {name: getattr(self, name) for name in self._parameter_names()}
        if not deep:
            return own
        inside = {
            f"{name}__{each.name}": getattr(group, each.name)
            for name in own
            if is_dataclass(group := self._group(name)) and not isinstance(group, type)
            for each in fields(group)
        }
        return own | inside

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``group__name`` sets one of a group, after the group itself.

        >>> from apportion import MultiTaskRidge
        >>> MultiTaskRidge().set_params(allocation__exponent=0.25).allocation.exponent
        0.25
        """
        changes: dict[str, dict[str, Any]] = {}
        for name, value in sorted(params.items(), key=lambda each: "__" in each[0]):
            group, _, inside = name.partition("__")
            if group not in self._parameter_names():
                raise ParameterError(
                    f"{type(self).__name__} has no parameter {group!r}; "
                    f"it has {', '.join(self._parameter_names())}"
                )
            if not inside:
                setattr(self, name, value)
                continue
            old = self._group(group)
            names = [each.name for each in fields(old)] if is_dataclass(old) else []
            if inside not in names:
                raise ParameterError(
                    f"{group} has no parameter {inside!r}; it has {', '.join(names)}"
                )
            changes.setdefault(group, {})[inside] = value
        for group, together in changes.items():  # one may only be allowed with another
            setattr(self, group, replace(self._group(group), **together))
        return self

    def _group(self, name: str) -> Any:
        """The parameter of this name; one that is given in short, as the group that it stands for."""
        return getattr(self, name)

    def _public_parameters(self) -> dict[str, Any]:
        """Every parameter but the budget, as it is used, for the privacy report."""
        elsewhere = {"epsilon", "delta", "allocation", "engine", "noise_seed"}
        return {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name not in elsewhere
        }

    def drop_checkpoint(self) -> None:
        """Remove what was kept of the last training, because it had a budget, until its model is saved.

        A checkpoint in a folder that you named stays yours to remove.
        """
        folder = vars(self).pop("checkpoint_", None)
        if folder is not None and is_ours(folder):
            remove(folder)

    def __sklearn_is_fitted__(self) -> bool:
        return any(hasattr(self, name) for name in ("released_", "privacy_"))

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

        kind = self._kind
        return Tags(
            estimator_type=kind,
            target_tags=TargetTags(required=False),  # labels are part of the data
            classifier_tags=ClassifierTags() if kind == "classifier" else None,
            regressor_tags=RegressorTags() if kind == "regressor" else None,
            no_validation=True,
            non_deterministic=True,
        )

    @property
    def _kind(self) -> Kind | None:
        """What scikit-learn should take it for."""
        return None

    def __sklearn_clone__(self) -> Self:
        parameters = self.get_params(deep=False)
        copied = {
            name: value if name == "engine" else deepcopy(value)
            for name, value in parameters.items()
        }
        copy = type(self)(**copied)
        # A search trains many copies of one estimator, perhaps each in another process.
        self._copies = vars(self).get("_copies", 0) + 1
        copy._copy = self._copies
        return copy

    def _warn_of_copies(self) -> None:
        """Say what a search costs, once: when the second copy of an estimator is about to be trained."""
        if vars(self).get("_copy") == 2 and not has_no_secret(self.get_params(deep=False)):
            warn(
                "a second copy of one private estimator is trained, as in a search or a "
                "cross-validation: every copy spends its epsilon (on the same people their mu^2 add up), "
                "and choosing among them by exact scores is outside any guarantee. Search with "
                'epsilon=math.inf on data that may be used so, or leave settings to "auto", which '
                "chooses from what it has paid for",
                UserWarning,
                stacklevel=3,
            )

    @contextmanager
    def _kept_until_saved(self, folder: str | Path) -> Iterator[None]:
        """What was paid for is dropped once the model is in its folder; an error is told where it is kept."""
        try:
            yield
        except (OSError, ApportionError) as error:
            kept = vars(self).get("checkpoint_")
            if kept is not None:
                mark_resumable(error, kept)
            raise
        self._note_saved(folder)
        self.drop_checkpoint()

    def _note_saved(self, folder: str | Path) -> None:
        """The report has the model's digest now; the budget that paid is told, too, and where the model is.

        The model is safe by now: if the budget cannot be told, that is a warning.
        """
        released = self.released_
        trail, budget = released.privacy.trail, vars(self).get("_paid_by")
        if trail is None:
            return
        trail = replace(trail, digest=digest_of(folder))
        self.released_ = replace(released, privacy=replace(released.privacy, trail=trail))
        if budget is None or not trail.training:
            return
        try:
            budget.note_saved(trail.training, trail.digest, os.path.realpath(folder))
        except (BudgetFileError, OSError) as error:
            warn(
                f"the model is saved, but the budget does not say where: {error}",
                UserWarning,
                stacklevel=5,
            )

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value}" for name, value in self._changed().items())
        if len(inside) > _LONGEST_REPR:
            inside = inside[:_LONGEST_REPR] + "..."
        return f"{type(self).__name__}({inside})"

    def _repr_html_(self) -> str:
        from apportion.pages import card, facts

        return card(
            type(self).__name__, facts(self._changed()), verdict="not trained yet", tone="dim"
        )

    def _changed(self) -> dict[str, str]:
        """The budget, and what is not as by default."""
        default = inspect.signature(type(self).__init__).parameters
        return {
            name: repr(value)
            for name, value in self.get_params(deep=False).items()
            if name in ("epsilon", "delta") or repr(value) != repr(default[name].default)
        }


def has_no_secret(parameters: Mapping[str, Any]) -> bool:
    """Whether nothing is worth keeping: the noise is known, or there is none."""
    epsilon = parameters["epsilon"]
    return parameters["noise_seed"] is not None or (
        isinstance(epsilon, (int, float)) and math.isinf(epsilon)
    )
