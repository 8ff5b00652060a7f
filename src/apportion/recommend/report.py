"""The last step of a training: what may be published, and the guarantee."""

from dataclasses import replace

from apportion.accounts import PrivacyReport
from apportion.accounts.plan import Plan
from apportion.recommend import rules
from apportion.recommend.fold_in import FoldIn
from apportion.recommend.groups import LARGEST
from apportion.recommend.intercepts import Knowledge, as_singles
from apportion.recommend.model import ItemModel
from apportion.recommend.popularity import WARNING
from apportion.recommend.preparation import Preparation
from apportion.recommend.run import Array, Run
from apportion.recommend.serving import AVERAGES, penalty_of
from apportion.recommend.settings import Choice, public_inputs
from apportion.tasks.private_fit import make_report


def report(
    run: Run,
    choice: Choice,
    plan: Plan | None,
    preparation: Preparation,
    known: Knowledge,
    items: Array,
    counts: Array | None,
) -> ItemModel:
    """Everything that may be published; there is no plan without privacy."""
    settings, offset = run.settings, preparation.offset
    regularization, exponent = penalty_of(settings, choice)
    return ItemModel(
        items=as_singles(items),
        item_ids=preparation.item_ids,
        counts=counts,
        titles=None,
        fold_in=FoldIn(
            feedback=settings.feedback,
            regularization=regularization,
            exponent=exponent,
            unobserved_weight=choice.serving_weight,
            center=settings.center,
            mean=offset.mean,
            shrinkage=offset.shrinkage,
            rating_range=settings.rating_range,
        ),
        privacy=_guarantee(run, choice, preparation),
        intercepts=known.intercepts,
        training=rules.declare(settings, choice, plan, run.curator.ledger),
    )


def _guarantee(run: Run, choice: Choice, preparation: Preparation) -> PrivacyReport:
    """With the settings that were chosen from released values, and those that are public."""
    settings, data, curator = run.settings, run.data, run.curator
    used = public_inputs(settings, choice)
    open_names = run.asked.open_names(settings) if settings.private else set()
    public = {
        "catalog": f"{settings.catalog!r}: {len(preparation.item_ids)} items",
        **({"rating_range": data.rating_range} if data.rating_range else {}),
        **({"events": data.events} if data.events else {}),
        **{name: value for name, value in used.items() if name not in open_names},
    }
    warnings = preparation.warnings
    if choice.sweeps == 0 and not settings.explicit:
        warnings = (WARNING, *warnings)
    if choice.serving_regularization >= LARGEST:
        warnings = (AVERAGES, *warnings)
    made = make_report(
        curator,
        settings.allocation,
        public,
        warnings,
        settings.catalog.counts,
        training="" if curator.reservation is None else curator.reservation.token,
    )
    secret = made.secret_noise and preparation.secret_noise
    named = {name: used[name] for name in used if name in open_names}
    return replace(made, chosen=named, secret_noise=secret)
