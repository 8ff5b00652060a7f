"""The trusted kernel: a wrong line in this folder can make an epsilon that we print false.

bounds, rounding: how far one user can move a sum. discrete, noise: the noise. parts, release, curator: the
only doors out. ledger, gaussian, sampled: what was released, and what it costs. protocols: who pays,
remembers and listens.

On it rests every epsilon, and nothing here rests on other rooms: only on errors, checks, the compiled
sampler (native/noise.cpp), and libraries. What it cannot check: that rows are grouped by user rightly, and
that the sums it is given are sums of the terms that were bounded. docs/explanation/proofs.md has a proof for
each name below, and lists what else the guarantee rests on, with its size.
"""

from apportion.privacy.bounds import UserBound as UserBound
from apportion.privacy.bounds import UserWeights as UserWeights
from apportion.privacy.bounds import clip_rows as clip_rows
from apportion.privacy.bounds import clip_values as clip_values
from apportion.privacy.bounds import scale_down as scale_down
from apportion.privacy.bounds import short_rows as short_rows
from apportion.privacy.curator import Curator as Curator
from apportion.privacy.gaussian import delta_from_epsilon as delta_from_epsilon
from apportion.privacy.gaussian import epsilon_from_mu as epsilon_from_mu
from apportion.privacy.gaussian import mu_from_epsilon as mu_from_epsilon
from apportion.privacy.ledger import ADD_OR_REMOVE as ADD_OR_REMOVE
from apportion.privacy.ledger import Ledger as Ledger
from apportion.privacy.ledger import PrivacyTarget as PrivacyTarget
from apportion.privacy.ledger import Record as Record
from apportion.privacy.noise import NoiseSource as NoiseSource
from apportion.privacy.parts import Part as Part
from apportion.privacy.parts import packed_width as packed_width
from apportion.privacy.parts import records_of as records_of
from apportion.privacy.protocols import Listener as Listener
from apportion.privacy.protocols import Payer as Payer
from apportion.privacy.protocols import Witness as Witness
from apportion.privacy.release import OpenRelease as OpenRelease
from apportion.privacy.rounding import truncated as truncated
