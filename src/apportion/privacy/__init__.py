"""The trusted kernel: bounds, noise, releases, the ledger and the arithmetic of the guarantee.

What it cannot check for itself is said in docs/guarantee.md: that rows are grouped by user rightly, and
that the sums it is given are sums of the terms that were bounded.
"""

from apportion.privacy.bounds import (
    UserBound,
    UserWeights,
    clip_rows,
    clip_values,
    scale_down,
    short_rows,
)
from apportion.privacy.gaussian import delta_from_epsilon, epsilon_from_mu, mu_from_epsilon
from apportion.privacy.ledger import ADD_OR_REMOVE, Ledger, PrivacyTarget, Record
from apportion.privacy.listener import Listener, listening
from apportion.privacy.noise import NoiseSource
from apportion.privacy.packing import pack, packed_width, unpack
from apportion.privacy.protocols import Payer, Witness
from apportion.privacy.release import Curator, Declared, OpenRelease, Part
from apportion.privacy.rounding import truncated

__all__ = [
    "ADD_OR_REMOVE",
    "Curator",
    "Declared",
    "Ledger",
    "Listener",
    "NoiseSource",
    "OpenRelease",
    "Part",
    "Payer",
    "PrivacyTarget",
    "Record",
    "UserBound",
    "UserWeights",
    "Witness",
    "clip_rows",
    "clip_values",
    "delta_from_epsilon",
    "epsilon_from_mu",
    "listening",
    "mu_from_epsilon",
    "pack",
    "packed_width",
    "scale_down",
    "short_rows",
    "truncated",
    "unpack",
]
