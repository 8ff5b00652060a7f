"""Reports beside one another: what they say, but for when and whether the model was saved."""

from dataclasses import replace

from apportion import PrivacyReport


def undated(report: PrivacyReport) -> str:
    """The whole report as text, without its date and the digest that a model has once it is saved."""
    trail = None if report.trail is None else replace(report.trail, date="", digest="", training="")
    return replace(report, trail=trail).to_json()
