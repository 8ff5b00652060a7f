"""Reports as pages of their own: a guarantee, a plan, an evaluation. Nothing in them runs or fetches.

Their parts are those of the cards that notebooks show.
"""

from pathlib import Path

from apportion.accounts import PrivacyReport
from apportion.accounts.cards import plan_sections
from apportion.accounts.explained import report_sections
from apportion.accounts.plan import Plan
from apportion.data.files import written_whole
from apportion.explore.quality import Quality, quality_sections
from apportion.pages import as_panels, page
from apportion.recommend.evaluated import evaluation_sections
from apportion.recommend.evaluation import Evaluation


def report_page(report: PrivacyReport, title: str) -> str:
    """The guarantee of a model."""
    return page(f"Privacy report: {title}", as_panels(report_sections(report)))


def plan_page(plan: Plan, quality: Quality | None = None) -> str:
    """How a training will spend its budget, and what to expect of it if that is known."""
    expected = [] if quality is None else quality_sections(quality, plan.target.epsilon)
    title = f"Plan for epsilon = {plan.target.epsilon:g} at delta = {plan.target.delta:g}"
    return page(title, as_panels([*plan_sections(plan), *expected]))


def evaluation_page(found: Evaluation, title: str) -> str:
    """How good a model is, beside what needs no model, overall and by popularity."""
    return page(f"Evaluation: {title}", as_panels(evaluation_sections(found)))


def write_page(path: Path, text: str) -> None:
    """Write a page, whole or not at all."""
    with written_whole(path) as temporary:
        temporary.write_text(text, "utf-8")
