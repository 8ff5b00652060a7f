"""What ``apportion fit``, ``prepare`` and ``plan`` have in common: which data, and which training."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from apportion.cli.options import AllocationName, Outside, Solver, Statistics
from apportion.cli.reading import Source, read_title_file
from apportion.cli.spark import Cluster

if TYPE_CHECKING:
    from apportion.accounts.budget import Budget
    from apportion.allocation import Allocation
    from apportion.data import Interactions
    from apportion.recommend import GradientDescent, MatrixFactorization, SufficientStatistics


@dataclass(frozen=True)
class Training:
    """Which data and which training the options ask for; what does not go together is refused.

    Attributes
        parameters: of the model, by the names of ``set_params``; None for its own choice.
        cluster: where it runs, if not on this machine alone.
        place: where the cluster reads the rows.
    """

    source: Source
    items: str | None
    top_share: float | None
    rating_range: tuple[float, float] | None
    outside: Outside
    epsilon: float
    delta: float
    allocation: "Allocation | None"
    parameters: dict[str, Any] = field(default_factory=dict)
    cluster: Cluster | None = None
    place: str = ""

    def __post_init__(self) -> None:
        not_private = math.isinf(self.epsilon)
        _check_range(self.source, self.rating_range, not_private)
        _check_items(self.source, self.items, self.top_share, not_private)

    def model(self) -> "MatrixFactorization":
        """Not trained yet."""
        return new_model(
            implicit=self.source.implicit,
            catalog="private" if self.items == "private" else "public",
            top_share=self.top_share,
            epsilon=self.epsilon,
            delta=self.delta,
            allocation=self.allocation,
            parameters=self.parameters if self.cluster is None else self._on_cluster(self.cluster),
        )

    def _on_cluster(self, cluster: Cluster) -> dict[str, Any]:
        return {**self.parameters, "engine": cluster.engine()}

    def read(self) -> "Interactions":
        """The data."""
        catalog: Path | str | None = None if self.items in (None, "private") else self.items
        if catalog not in (None, "public"):
            catalog = Path(catalog)
        settings: dict[str, Any] = {
            "items": catalog,
            "rating_range": self.rating_range,
            "outside": self.outside.value,
        }
        if self.cluster is not None and self.source.data_set is None:
            return self.cluster.read(self.source, self.place, **settings)
        return self.source.read(**settings)

    def titles(self, path: Path | None, data: "Interactions") -> dict[Any, str] | None:
        """{id: title}, read before training so that a bad file costs no budget."""
        from apportion.data.datasets import find_data_set, read_titles

        source = self.source
        if path is not None:
            return read_title_file(path, data.item_ids)
        if source.data_set is None or find_data_set(source.data_set.value).titles is None:
            return None
        frame = read_titles(source.data_set.value, source.path)
        titles = frame["title"].fill_null("").to_list()
        return dict(zip(frame["item"].to_list(), titles, strict=True))


def new_model(
    *,
    implicit: bool,
    catalog: str,
    top_share: float | None,
    epsilon: float,
    delta: float,
    allocation: "Allocation | None",
    parameters: dict[str, Any],
) -> "MatrixFactorization":
    """A model that is not trained yet; ``parameters`` that are None are left to it."""
    # Imported here so that `apportion --help` answers at once.
    from apportion.recommend.catalog import MostFrequent
    from apportion.recommend.factorization import MatrixFactorization

    model = MatrixFactorization(
        feedback="implicit" if implicit else "explicit",
        epsilon=epsilon,
        delta=delta,
        allocation=allocation,
        catalog=catalog if top_share is None else MostFrequent(top_share),
    )
    return model.set_params(
        **{name: value for name, value in parameters.items() if value is not None}
    )


def open_budget(path: Path | None, label: str | None) -> "Budget | None":
    """The budget that pays, if one does."""
    from apportion.accounts.budget import Budget

    if path is None and label is not None:
        raise typer.BadParameter("goes with --budget only", param_hint="'--label'")
    return None if path is None else Budget(path, label=label or "")


def find_source(
    data: str,
    data_set: Any,
    columns: tuple[str | None, str | None, str | None],
    implicit: bool,
    positives: float | None,
    weights: tuple[str | None, bool, float | None] = (None, False, None),
    encoding: str | None = None,
) -> Source:
    """Where rows are read from.

    Args:
        data, data_set: the file, or the archive of a known data set.
        columns: of user, item and rating.
        implicit, positives: which rows are events.
        weights: the column of weights, whether repeated rows count, and the largest weight.
        encoding: of CSV files.
    """
    column, repeats, bound = weights
    if column is not None and repeats:
        raise typer.BadParameter("does not go with --weight", param_hint="'--count-repeats'")
    if implicit and positives is not None:
        raise typer.BadParameter("needs ratings; leave out --implicit", param_hint="'--positives'")
    events = implicit or positives is not None
    return Source(
        Path(data),
        data_set,
        *columns,
        implicit=events,
        positives=positives,
        weight=repeats or column,
        weight_bound=bound,
        encoding=encoding,
    )


def _check_range(
    source: Source, rating_range: tuple[float, float] | None, not_private: bool
) -> None:
    if source.data_set is not None:
        from apportion.data.datasets import find_data_set

        if rating_range is not None:
            raise typer.BadParameter(
                "a data set knows its own range", param_hint="'--rating-range'"
            )
        rating_range = find_data_set(source.data_set.value).rating_range
        if rating_range is None and not source.implicit:
            raise typer.BadParameter(
                f"{source.data_set.value} has no ratings: add --implicit", param_hint="'--data-set'"
            )
    elif rating_range is None and not source.implicit and not not_private:
        raise typer.BadParameter(
            "give the smallest and largest possible rating, as in --rating-range 1 5; it must not "
            "come from the data. For events without ratings: --implicit",
            param_hint="'--rating-range'",
        )


def _check_items(
    source: Source, items: str | None, top_share: float | None, not_private: bool
) -> None:
    if top_share is not None and items == "private":
        raise typer.BadParameter(
            "needs a public list of items, to keep a share of it", param_hint="'--top-share'"
        )
    if source.data_set is not None:
        if items not in (None, "public", "private"):
            raise typer.BadParameter("a data set has its own list", param_hint="'--items'")
    elif items is None and not not_private:
        raise typer.BadParameter(
            "which items exist can give a user away. Give a FILE with the public list; or public, if "
            "the ids in the data are no secret; or private, to choose items privately",
            param_hint="'--items'",
        )


def find_allocation(
    name: AllocationName, weight_exponent: float | None, k: int | None
) -> "Allocation | None":
    """The allocation of these options; None for the model's own choice."""
    from apportion.allocation import AdaptiveWeights, TailSampling, UniformSampling, UniformWeights

    samples = name in (AllocationName.uniform_sampling, AllocationName.tail_sampling)
    if samples and k is None:
        raise typer.BadParameter(
            f"{name.value} needs --k, the number of items that count for a user",
            param_hint="'--allocation'",
        )
    if k is not None and not samples:
        raise typer.BadParameter(
            "goes with --allocation uniform-sampling or tail-sampling only", param_hint="'--k'"
        )
    if weight_exponent is not None and name is not AllocationName.adaptive:
        raise typer.BadParameter(
            "goes with --allocation adaptive only", param_hint="'--weight-exponent'"
        )
    if k is not None:
        return TailSampling(k) if name is AllocationName.tail_sampling else UniformSampling(k)
    if name is AllocationName.uniform:
        return UniformWeights()
    if weight_exponent is None:
        return None
    return AdaptiveWeights(exponent=weight_exponent)


def find_solver(solver: Solver, statistics: Statistics) -> "SufficientStatistics | GradientDescent":
    """The solver of these options."""
    from apportion.recommend import GradientDescent, SufficientStatistics

    if solver is Solver.ssp:
        shared = statistics is Statistics.shared
        return SufficientStatistics(matrices="shared" if shared else "per-item")
    if statistics is not Statistics.shared:
        raise typer.BadParameter("goes with --solver ssp only", param_hint="'--statistics'")
    return GradientDescent()
