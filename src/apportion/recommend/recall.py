"""The recall to expect of a private model of events, between what is popular and what could be learned.

A forecast of events says which share of tastes is lost. Recall takes two more figures: that of recommending
what is popular, and that of a model without privacy. A model that loses a share l of tastes gains

    1 - (l / 0.7)^2

of the distance between them (nothing where l is larger). Form and number were fitted to trainings on
MovieLens-1M and Gowalla (``docs/explanation/choices.md`` has them).
"""

import math
from dataclasses import dataclass

from apportion.checks import number
from apportion.errors import ParameterError

# Models that lose as much of tastes are no better than what is popular.
_ALL = 0.7


@dataclass(frozen=True)
class RecallRange:
    """Recall of what is popular, and of a model without privacy, for lists of one length.

    >>> between = RecallRange(0.18, 0.36)
    >>> round(between.expected(lost=0.3), 3)
    0.327
    >>> round(between.lost(recall=0.327), 2)
    0.3
    """

    popular: float
    best: float

    def __post_init__(self) -> None:
        number("the recall of what is popular", self.popular, at_least=0, below=1)
        number("the recall without privacy", self.best, above=0, at_most=1)
        if not self.popular < self.best:
            raise ParameterError(
                f"a model without privacy must find more ({self.best:g}) than what is popular "
                f"({self.popular:g}): there is nothing to pay for otherwise"
            )

    def expected(self, lost: float) -> float:
        """The recall of a model that loses this share of tastes."""
        gain = 1 - min(1.0, lost / _ALL) ** 2
        return self.popular + gain * (self.best - self.popular)

    def lost(self, recall: float) -> float:
        """The share of tastes that may be lost for this recall: the inverse."""
        number("the recall", recall, above=0, below=1)
        if recall <= self.popular:
            raise ParameterError(
                f"what is popular has a recall of {self.popular:g} already: {recall:g} takes no tastes"
            )
        if recall >= self.best:
            raise ParameterError(
                f"a model without privacy has a recall of {self.best:g}: {recall:g} is out of reach"
            )
        return _ALL * math.sqrt((self.best - recall) / (self.best - self.popular))
