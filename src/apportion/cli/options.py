"""Options of the commands that train: of ``fit``, ``prepare`` and ``plan``, some of those for tasks, too."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from apportion.cli.reading import DATA_PANEL

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
    """Whether items have second moments of their own."""

    shared = "shared"
    per_item = "per-item"


class EngineName(StrEnum):
    """Where sums are computed."""

    auto = "auto"
    cpu = "cpu"
    reference = "reference"
    spark = "spark"


class Solver(StrEnum):
    """How items are fitted."""

    ssp = "ssp"
    descent = "descent"


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="CSV or Parquet file, folder of Parquet, archive; with --engine spark any path of Hadoop's.",
    ),
]
Implicit = Annotated[
    bool,
    typer.Option(
        "--implicit", help="Rows are events: ratings do not count.", rich_help_panel=DATA_PANEL
    ),
]
RatingRange = Annotated[
    tuple[float, float] | None,
    typer.Option(
        metavar="LOW HIGH",
        help="Smallest and largest possible rating; public.",
        rich_help_panel=DATA_PANEL,
    ),
]
OutsideRange = Annotated[
    Outside, typer.Option(help="Ratings outside that range.", rich_help_panel=DATA_PANEL)
]
Items = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|public|private",
        help="Which items exist. FILE: a public list, one id a line, or a column item. public: the "
        "ids in the data are no secret. private: choose those that pass a noisy threshold.",
        rich_help_panel=_ITEMS_PANEL,
    ),
]
TopShare = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="Keep this share of a public list: the most frequent, by private counts.",
        rich_help_panel=_ITEMS_PANEL,
    ),
]
Titles = Annotated[
    Path | None,
    typer.Option(
        help="File with columns item and title, to be saved with the model.",
        rich_help_panel=_ITEMS_PANEL,
    ),
]
Epsilon = Annotated[
    float | None,
    typer.Option(show_default="1", help="Privacy budget.", rich_help_panel=_PRIVACY_PANEL),
]
Delta = Annotated[
    float,
    typer.Option(help="Probability that the guarantee may fail.", rich_help_panel=_PRIVACY_PANEL),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace a model that is there already.")
]
CheckpointFolder = Annotated[
    Path | None,
    typer.Option(
        show_default="in the user's state folder",
        help="Folder from which a run that was interrupted is resumed: the same command again. It holds "
        "a secret key, and is removed at the end.",
    ),
]
NoCheckpoint = Annotated[
    bool,
    typer.Option(
        "--no-checkpoint", help="Keep nothing: if the run fails, what it has spent is lost."
    ),
]
BudgetFile = Annotated[
    Path | None,
    typer.Option(
        "--budget",
        metavar="FILE",
        help="Pay from this budget, of all trainings on these people (apportion budget create).",
        rich_help_panel=_PRIVACY_PANEL,
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="With --budget: what you call this training; its history shows it.",
        rich_help_panel=_PRIVACY_PANEL,
    ),
]
NotPrivate = Annotated[
    bool,
    typer.Option(
        "--not-private",
        help="No noise and no guarantee, to compare with.",
        rich_help_panel=_PRIVACY_PANEL,
    ),
]
Factors = Annotated[
    int | None,
    typer.Option(
        min=1,
        show_default="chosen after the counts",
        help="Length of the vectors.",
        rich_help_panel=_MODEL_PANEL,
    ),
]
Sweeps = Annotated[
    int | None,
    typer.Option(
        min=1,
        show_default="chosen after the counts",
        help="How often users and items take turns.",
        rich_help_panel=_MODEL_PANEL,
    ),
]
InterceptShare = Annotated[
    float | None,
    typer.Option(
        show_default="chosen after the counts",
        help="Of ratings: the budget for items' intercepts, against that of sweeps; 0 for none.",
        rich_help_panel=_MODEL_PANEL,
    ),
]
Split = Annotated[
    AllocationName,
    typer.Option(
        "--allocation", help="How users split their budget.", rich_help_panel=_MODEL_PANEL
    ),
]
WeightExponent = Annotated[
    float | None,
    typer.Option(
        show_default="0.25, events 0.1",
        help="Of adaptive: 0 is uniform, 1 favors rare items most.",
        rich_help_panel=_MODEL_PANEL,
    ),
]
SampledItems = Annotated[
    int | None,
    typer.Option(
        "--k", min=1, help="Items a user, for the samplings.", rich_help_panel=_MODEL_PANEL
    ),
]
SolverName = Annotated[
    Solver,
    typer.Option(
        help="ssp: noisy statistics; descent: noisy gradients.", rich_help_panel=_MODEL_PANEL
    ),
]
StatisticsName = Annotated[
    Statistics,
    typer.Option(
        help="Of ssp. shared: one second moment for all items; per-item: one each, as in the paper.",
        rich_help_panel=_MODEL_PANEL,
    ),
]
Regularization = Annotated[
    float | None, typer.Option(help="Penalty.", rich_help_panel=_MODEL_PANEL)
]
UnobservedWeight = Annotated[
    float | None, typer.Option(help="Weight of what is no event.", rich_help_panel=_MODEL_PANEL)
]
FeatureBound = Annotated[
    float | None,
    typer.Option(help="Largest norm of a user's vector.", rich_help_panel=_MODEL_PANEL),
]
EngineOption = Annotated[
    EngineName,
    typer.Option(
        "--engine",
        help="Where sums are computed: cpu is compiled, reference needs no compiler, spark is a cluster; "
        "auto is cpu.",
        rich_help_panel=_MODEL_PANEL,
    ),
]
