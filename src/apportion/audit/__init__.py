"""Attacks that try to prove the guarantee wrong. See docs/explanation/audit.md.

A room of its own: an attack drives estimators, of which the trusted kernel must know nothing.
"""

from apportion.audit.report import AuditReport, Finding, Game, OneRun
from apportion.audit.suite import LONG, NAMES, QUICK, USUAL, Effort, planned_runs, run

__all__ = [
    "LONG",
    "NAMES",
    "QUICK",
    "USUAL",
    "AuditReport",
    "Effort",
    "Finding",
    "Game",
    "OneRun",
    "planned_runs",
    "run",
]
