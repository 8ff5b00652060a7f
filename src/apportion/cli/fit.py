"""``apportion fit``: train a recommender privately and save it."""

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from apportion.cli.progress import progress_bar
from apportion.cli.reading import (
    DATA_PANEL,
    DataSetName,
    ItemColumn,
    Positives,
    RatingColumn,
    Source,
    UserColumn,
    read_title_file,
)
from apportion.privacy.errors import ParameterError

if TYPE_CHECKING:
    from apportion.allocation import Allocation
    from apportion.data import Interactions
    from apportion.recommend.catalogue import ItemCatalogue

_ITEMS_PANEL, _PRIVACY_PANEL, _MODEL_PANEL = "Items", "Privacy", "Model"


class Outside(StrEnum):
    """What to do with ratings outside their range."""

    error = "error"
    clip = "clip"


class AllocationName(StrEnum):
    """How a user's budget is split among its items."""

    adaptive = "adaptive"
    uniform = "uniform"
    uniform_sampling = "uniform-sampling"
    tail_sampling = "tail-sampling"


class Statistics(StrEnum):
    """What of the users' vectors items have for themselves."""

    shared = "shared"
    per_task = "per-task"


class Solver(StrEnum):
    """How items are fitted."""

    ssp = "ssp"
    descent = "descent"


def fit(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="CSV or Parquet file, folder of Parquet, archive."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a model that is there already.")
    ] = False,
    data_set: DataSetName = None,
    user: UserColumn = None,
    item: ItemColumn = None,
    rating: RatingColumn = None,
    implicit: Annotated[
        bool,
        typer.Option(
            "--implicit", help="Rows are events: ratings do not count.", rich_help_panel=DATA_PANEL
        ),
    ] = False,
    positives: Positives = None,
    rating_range: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="LOW HIGH",
            help="Smallest and largest possible rating; public.",
            rich_help_panel=DATA_PANEL,
        ),
    ] = None,
    outside: Annotated[
        Outside, typer.Option(help="Ratings outside that range.", rich_help_panel=DATA_PANEL)
    ] = Outside.error,
    items: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|public|private",
            help="Which items exist. FILE: a public list, one id a line, or a column item. public: the "
            "ids in the data are no secret. private: choose those that pass a noisy threshold.",
            rich_help_panel=_ITEMS_PANEL,
        ),
    ] = None,
    top_share: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Keep this share of a public list: the most frequent, by private counts.",
            rich_help_panel=_ITEMS_PANEL,
        ),
    ] = None,
    titles: Annotated[
        Path | None,
        typer.Option(
            help="File with columns item and title, to be saved with the model.",
            rich_help_panel=_ITEMS_PANEL,
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(show_default="1", help="Privacy budget.", rich_help_panel=_PRIVACY_PANEL),
    ] = None,
    delta: Annotated[
        float,
        typer.Option(
            help="Probability that the guarantee may fail.", rich_help_panel=_PRIVACY_PANEL
        ),
    ] = 1e-5,
    not_private: Annotated[
        bool,
        typer.Option(
            "--not-private",
            help="No noise and no guarantee, to compare with.",
            rich_help_panel=_PRIVACY_PANEL,
        ),
    ] = False,
    factors: Annotated[
        int, typer.Option(min=1, help="Length of the vectors.", rich_help_panel=_MODEL_PANEL)
    ] = 32,
    sweeps: Annotated[
        int,
        typer.Option(
            min=1, help="How often users and items take turns.", rich_help_panel=_MODEL_PANEL
        ),
    ] = 4,
    allocation: Annotated[
        AllocationName,
        typer.Option(help="How users split their budget.", rich_help_panel=_MODEL_PANEL),
    ] = AllocationName.adaptive,
    weight_exponent: Annotated[
        float | None,
        typer.Option(
            show_default="0.25",
            help="Of adaptive: 0 is uniform, 1 favours rare items most.",
            rich_help_panel=_MODEL_PANEL,
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "--k", min=1, help="Items a user, for the samplings.", rich_help_panel=_MODEL_PANEL
        ),
    ] = None,
    solver: Annotated[
        Solver,
        typer.Option(
            help="ssp: noisy statistics; descent: noisy gradients.", rich_help_panel=_MODEL_PANEL
        ),
    ] = Solver.ssp,
    statistics: Annotated[
        Statistics,
        typer.Option(
            help="Of ssp. shared: one second moment for all items; per-task: one each, as in the paper.",
            rich_help_panel=_MODEL_PANEL,
        ),
    ] = Statistics.shared,
    regularization: Annotated[
        float | None, typer.Option(help="Penalty.", rich_help_panel=_MODEL_PANEL)
    ] = None,
    unobserved_weight: Annotated[
        float | None,
        typer.Option(help="Weight of what is no event.", rich_help_panel=_MODEL_PANEL),
    ] = None,
    feature_bound: Annotated[
        float | None,
        typer.Option(help="Largest norm of a user's vector.", rich_help_panel=_MODEL_PANEL),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0, help="Of the first factors, not of noise.", rich_help_panel=_MODEL_PANEL
        ),
    ] = 0,
) -> None:
    """Train a recommender under user-level differential privacy, and save what may be published.

    Shows how the budget will be spent, trains, and shows the privacy report. Nothing that is printed
    or saved tells more about a user than the report says. Run it once: each run spends its own budget.

    [bold]Examples[/bold]

      Ratings in a CSV file with columns user, item and rating; a public list of items:

      apportion fit ratings.csv --rating-range 1 5 --items items.txt --epsilon 1 --out model

      Events in Parquet, items chosen privately:

      apportion fit plays.parquet --user listener --item song --implicit --items private --out model

      A known data set, ratings of 4 and 5 as events, without the rare items:

      apportion fit ml-1m.zip --data-set ml-1m --positives 4 --top-share 0.2 --out model
    """
    if not_private and epsilon is not None:
        raise typer.BadParameter("does not go with --epsilon", param_hint="'--not-private'")
    if implicit and positives is not None:
        raise typer.BadParameter("needs ratings; leave out --implicit", param_hint="'--positives'")
    events = implicit or positives is not None
    source = Source(data, data_set, user, item, rating, implicit=events, positives=positives)
    _check_range(source, rating_range, not_private)
    _check_items(source, items, top_share, not_private)
    chosen: dict[str, Any] = {
        "regularization": regularization,
        "unobserved_weight": unobserved_weight,
        "feature_bound": feature_bound,
    }
    split = _allocation(allocation, weight_exponent, k)
    console = Console()
    with console.status("starting ..."):
        # Imported here so that `apportion --help` answers at once.
        from apportion.recommend.factorization import MatrixFactorization
        from apportion.recommend.files import check_target

        if check_target(out) and not overwrite:
            raise ParameterError(f"{out} holds a model already; --overwrite replaces it")
        out.parent.mkdir(
            parents=True, exist_ok=True
        )  # what cannot be made should not cost a training
        model = MatrixFactorization(
            factors=factors,
            sweeps=sweeps,
            feedback="implicit" if events else "explicit",
            epsilon=math.inf if not_private else 1.0 if epsilon is None else epsilon,
            delta=delta,
            allocation=split,
            solver=solver.value,
            statistics=statistics.value,
            catalogue=_catalogue(items, top_share),
            seed=seed,
            **{name: value for name, value in chosen.items() if value is not None},
        )
        plan = model.plan()
    with console.status("reading ..."):
        interactions = _read(source, items, rating_range, outside)
        named = _titles(source, titles, interactions)
    console.print(plan)
    with progress_bar(console) as progress:
        task = progress.add_task("training", total=sweeps)
        model.fit(interactions, on_sweep=lambda done, _: progress.update(task, completed=done))
        model.save(out, named)  # before anything is printed: that can fail, and the budget is spent
    console.print(model.privacy)
    console.print(f"saved {out}", highlight=False, soft_wrap=True)


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


def _allocation(name: AllocationName, weight_exponent: float | None, k: int | None) -> "Allocation":
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
        return AdaptiveWeights.for_convex()
    return AdaptiveWeights(exponent=weight_exponent)


def _catalogue(items: str | None, top_share: float | None) -> "str | ItemCatalogue":
    from apportion.recommend.catalogue import MostFrequent

    if top_share is not None:
        return MostFrequent(top_share)
    return "private" if items == "private" else "public"


def _read(
    source: Source, items: str | None, rating_range: tuple[float, float] | None, outside: Outside
) -> "Interactions":
    catalogue: Path | str | None = None if items in (None, "private") else items
    if catalogue not in (None, "public"):
        catalogue = Path(catalogue)
    return source.read(items=catalogue, rating_range=rating_range, outside=outside.value)


def _titles(source: Source, path: Path | None, data: "Interactions") -> dict[Any, str] | None:
    """{id: title}, read before training so that a bad file costs no budget."""
    from apportion.data.datasets import find_data_set, read_titles

    if path is not None:
        return read_title_file(path, data.item_ids)
    if source.data_set is None or find_data_set(source.data_set.value).titles is None:
        return None
    frame = read_titles(source.data_set.value, source.path)
    return dict(zip(frame["item"].to_list(), frame["title"].fill_null("").to_list(), strict=True))
