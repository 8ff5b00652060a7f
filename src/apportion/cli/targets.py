"""The quality that ``apportion plan`` is asked for: an RMSE, a recall, or a share of tastes."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apportion.errors import ParameterError

if TYPE_CHECKING:
    from apportion.recommend import MatrixFactorization
    from apportion.recommend.planner import Forecast
    from apportion.recommend.preparation import Preparation
    from apportion.recommend.recall import RecallRange

_PANEL = "Quality"

TargetRmse = Annotated[
    float | None,
    typer.Option(
        help="Ratings: answer with the least epsilon that is expected to reach this RMSE.",
        rich_help_panel=_PANEL,
    ),
]
TargetRecall = Annotated[
    float | None,
    typer.Option(
        help="Events: answer with the least epsilon that is expected to reach this recall; with "
        "--recall-range.",
        rich_help_panel=_PANEL,
    ),
]
RecallBetween = Annotated[
    tuple[float, float] | None,
    typer.Option(
        "--recall-range",
        metavar="LOW HIGH",
        help="Recall of what is popular and of a model without privacy, as known of public or earlier data "
        "like these: apportion evaluate shows both.",
        rich_help_panel=_PANEL,
    ),
]
TargetLost = Annotated[
    float | None,
    typer.Option(
        help="Events: answer with the least epsilon at which noise is expected to take away no more "
        "than this share of what could be learned.",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True)
class Target:
    """What is wanted.

    Attributes
        error: of a forecast: an RMSE, or a share of tastes.
        said: the figure as it was asked for.
        between: where recall lies, if recall was asked for.
    """

    error: float
    said: float
    between: "RecallRange | None" = None

    def least(
        self, model: "MatrixFactorization", known: "Preparation", error: float
    ) -> "tuple[float, Forecast]":
        """The least epsilon for this error, and the forecast there; that none is enough is said in recall."""
        from apportion.recommend.quality import OutOfReachError

        try:
            return model.least_epsilon(known, error)
        except OutOfReachError as none:
            if self.between is None:
                raise
            raise ParameterError(
                f"no epsilon up to {none.epsilon:.3g} is expected to reach this: the recall to expect there "
                f"is {self.between.expected(none.best.error):.3g}. More users or rows would help"
            ) from None

    def expected(self, lost: float) -> dict[str, Any]:
        """The recall that a forecast means, for JSON; nothing where another quality was asked for."""
        return {} if self.between is None else {"recall": self.between.expected(lost)}


def find_target(
    rmse: float | None,
    recall: float | None,
    between: tuple[float, float] | None,
    lost: float | None,
    *,
    implicit: bool,
) -> Target | None:
    """What these options ask for, if they ask for something."""
    given = {"--target-rmse": rmse, "--target-recall": recall, "--target-lost": lost}
    asked = [name for name, value in given.items() if value is not None]
    if len(asked) > 1:
        raise typer.BadParameter(f"does not go with {asked[1]}", param_hint=f"'{asked[0]}'")
    if between is not None and recall is None:
        raise typer.BadParameter("goes with --target-recall", param_hint="'--recall-range'")
    if not asked:
        return None
    [name] = asked
    if (name == "--target-rmse") == implicit:
        what, other = (
            ("events, of which no RMSE is known", "--target-recall or --target-lost")
            if implicit
            else ("ratings", "--target-rmse")
        )
        raise typer.BadParameter(f"is not for {what}: give {other}", param_hint=f"'{name}'")
    value = given[name]
    assert value is not None
    if not 0 < value < (1 if implicit else math.inf):
        raise typer.BadParameter(
            "must be above 0" + (" and below 1" * implicit), param_hint=f"'{name}'"
        )
    if recall is None:
        return Target(value, value)
    if between is None:
        raise typer.BadParameter(
            "needs --recall-range: the recall of what is popular and of a model without privacy, on public "
            "or earlier data like these; apportion evaluate shows both",
            param_hint="'--target-recall'",
        )
    from apportion.recommend.recall import RecallRange

    scale = RecallRange(*between)
    return Target(scale.lost(recall), recall, scale)
