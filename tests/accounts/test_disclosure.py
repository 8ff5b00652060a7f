"""What guidelines ask for follows from the report, and the registry's entry has the template's fields."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

import apportion as ap
from apportion.accounts.disclosure import disclosure
from apportion.accounts.registry import registry_entry
from apportion.errors import DataError, ParameterError
from tests.cli.test_recommend import run

DATA = ap.simulate_tasks(users=300, tasks=4, tasks_per_user=2)
REPORT = ap.MultiTaskRidge(2.0, delta=1e-5).fit(DATA).privacy
# What the registry's schema asks for, as of 2026: types, and the values that are allowed.
TEXT = str
FIELDS: dict[str, dict[str, Any]] = {
    "basic": {
        "name": TEXT, "data_curators": list, "description": TEXT, "intended_use": TEXT,
        "data_product_type": (
            "Summary statistics", "Machine learning model", "Dataset", "Synthetic data", "Interactive API",
            "SQL queries",
        ),
        "data_product_region": TEXT,
        "data_product_sector": (
            "Technology", "Healthcare", "Education", "Government", "Energy", "Finance",
        ),
        "publication_date": "date",
    },
    "dp_variant": {
        "variant_name": (
            "Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom",
        ),
        "data_domain": TEXT, "unprotected_quantities": TEXT,
    },
    "privacy_loss": {
        "privacy_unit": TEXT, "privacy_unit_details": TEXT, "number_of_privacy_units": int,
        "privacy_parameters": {"epsilon": float, "delta": float, "rho": float},
        "privacy_parameters_details": TEXT,
    },
    "deployment_model": {
        "model_name": ("Local", "Central", "Shuffle", "Federated", "Varies"),
        "model_name_details": TEXT, "trust_assumptions": TEXT, "actors": TEXT,
        "release_type": ("One release", "Many releases"), "release_type_details": TEXT,
        "data_source_type": ("Static", "Dynamic"), "data_source_type_details": TEXT,
        "access_type": ("Interactive", "Non-interactive"), "access_type_details": TEXT,
    },
    "implementation": {
        "preprocessing_and_hyperparameter_tuning": TEXT, "mechanisms": TEXT, "composition": TEXT,
        "post_processing": TEXT, "justification": TEXT, "utility": TEXT, "additional_information": TEXT,
    },
    "administrative": {
        "evidence_sources": {}, "status": ("Draft", "Pending", "Approved"), "registry_authors": list,
        "tier": (1, 2, 3),
    },
}  # fmt: skip
REQUIRED = {
    "basic": (
        "name", "data_curators", "description", "intended_use", "data_product_type",
        "data_product_region", "publication_date",
    ),
    "administrative": ("status", "registry_authors", "tier"),
}  # fmt: skip
# What an owner fills in.
FILLED = {
    'data_curator_type: ""': 'data_curator_type: "Nonprofit"',
    'data_product_sector: ""': 'data_product_sector: "Healthcare"',
    'publication_date: ""': 'publication_date: "2026-05-31"',
    "# number_of_privacy_units: ": "number_of_privacy_units: 300  #",
}


def faults(value: Any, form: Any, place: str = "") -> list[str]:
    """Where a value is not of the form that the schema has."""
    if isinstance(form, dict):
        if not isinstance(value, dict):
            return [f"{place} is no mapping"]
        unknown = [f"{place}/{name} is not in the schema" for name in value if name not in form]
        return unknown + [
            fault
            for name in value
            if name in form
            for fault in faults(value[name], form[name], f"{place}/{name}")
        ]
    if isinstance(form, tuple):
        return [] if value in form else [f"{place} is {value!r}, none of {form}"]
    if form == "date":
        return [] if re.fullmatch(r"\d{4}-\d\d-\d\d", str(value)) else [f"{place} is no date"]
    return [] if form is list or isinstance(value, form) else [f"{place} is no {form}"]


def read(text: str) -> dict[str, Any]:
    """The mappings of a YAML text whose values are JSON; lists are empty mappings."""
    whole: dict[str, Any] = {}
    open_ones = [(-1, whole)]
    for line in text.splitlines():
        name, _, value = line.strip().partition(":")
        if name.startswith("#") or name.startswith("-") or line.strip().startswith('"'):
            continue
        depth = len(line) - len(line.lstrip())
        while depth <= open_ones[-1][0]:
            open_ones.pop()
        value = value.split("  # ")[0].strip()
        inside = open_ones[-1][1]
        if value:
            inside[name] = json.loads(value)
        else:
            inside[name] = {}
            open_ones.append((depth, inside[name]))
    return whole


def test_the_entry_has_the_fields_and_the_guarantee() -> None:
    text = registry_entry(REPORT, disclosure(REPORT, "1.2"), "wards of 2026")
    entry = read(text)
    assert entry["url_slug"] == "wards_of_2026"
    assert set(entry["deployment"]) == set(FIELDS)
    loss = entry["deployment"]["privacy_loss"]
    assert REPORT.epsilon <= loss["privacy_parameters"]["epsilon"] < REPORT.epsilon + 1e-4
    assert loss["privacy_parameters"]["delta"] == 1e-5
    assert "delta: 1.0e-05" in text  # without a point readers of YAML take it for text
    assert f"{REPORT.mu:.6g}-Gaussian DP" in loss["privacy_parameters_details"]
    assert entry["deployment"]["deployment_model"]["release_type"] == "One release"


def test_an_entry_that_is_filled_in_is_valid() -> None:
    text = registry_entry(REPORT, disclosure(REPORT, "1.2"), "wards")
    left = faults(read(text)["deployment"], FIELDS)
    assert len(left) == 2  # the sector and the date, which only the owner knows
    for empty, full in FILLED.items():
        assert text.count(empty) == 1, empty
        text = text.replace(empty, full)
    entry = read(text)
    assert set(entry) == {"url_slug", "deployment"}
    assert faults(entry["deployment"], FIELDS) == []
    for part, names in REQUIRED.items():
        assert set(names) <= set(entry["deployment"][part])
    assert entry["deployment"]["privacy_loss"]["number_of_privacy_units"] == 300
    assert 'data_curator_type: "Nonprofit"' in text
    wrong = text.replace('"Central"', '"central"').replace("tier: 2", "tier: 4")
    assert len(faults(read(wrong)["deployment"], FIELDS)) == 2


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.3, 40.0])
def test_the_epsilon_stated_is_never_less(epsilon: float) -> None:
    report = ap.MultiTaskRidge(epsilon).fit(DATA).privacy
    entry = read(registry_entry(report, disclosure(report, "1"), "m"))
    stated = entry["deployment"]["privacy_loss"]["privacy_parameters"]["epsilon"]
    assert report.epsilon <= stated <= report.epsilon * (1 + 1e-4)


def test_items_follow_from_the_report(tmp_path: Path) -> None:
    items = disclosure(REPORT, "1.2")
    assert "counted alone" in items["releases"]
    assert f"{len(list(REPORT.ledger))} releases" in items["query model"]
    assert "feature_bound = 1.0" in items["not protected"]
    assert items["utility"] == "Not stated."
    assert "threshold" not in items["mechanisms"]
    budget = ap.Budget.create(tmp_path / "b.db", ap.PrivacyTarget(2.0, 1e-5))
    paid = ap.MultiTaskRidge(1.0).fit(DATA, budget=budget, checkpoint=False).privacy
    assert "A budget counts all trainings" in disclosure(paid, "1")["releases"]
    sampled = ap.MultiTaskDescent(1.0, steps=ap.Steps(2, sampling_rate=0.5)).fit(DATA).privacy
    found = disclosure(sampled, "1")
    assert "drawn at random" in found["mechanisms"]
    assert "Gaussian DP" not in found["guarantee"]
    ratings = ap.simulate_interactions(users=400, items=20, rows=4000)
    chosen = ap.MatrixFactorization(catalog="private", epsilon=5.0).fit(ratings).privacy
    found = disclosure(chosen, "1", {"rmse": 0.93, "rmse_by_bucket": [1.0, 0.9]})
    assert "noisy threshold" in found["mechanisms"]
    assert "paid for: " in found["tuning and exploration"]
    assert "rmse = 0.93; rmse_by_bucket = [1, 0.9]" in found["utility"]


def test_what_is_not_private_is_no_deployment() -> None:
    report = ap.MultiTaskRidge(math.inf).fit(DATA).privacy
    items = disclosure(report, "1")
    assert items["guarantee"].startswith("NOT PRIVATE")
    with pytest.raises(ParameterError, match="this one is not private"):
        registry_entry(report, items, "m")


def test_the_command(tmp_path: Path) -> None:
    folder, entry = tmp_path / "m", tmp_path / "entry.yaml"
    ap.MultiTaskRidge(2.0).fit(DATA).save(folder)
    found = tmp_path / "found.json"
    found.write_text('{"rmse": 0.5, "verdict": "good"}')
    said = run("report", folder, "--full", "--registry", entry, "--utility", found)
    assert "trust model: Central" in said
    assert "rmse = 0.5" in said
    assert read(entry.read_text())["deployment"]["basic"]["name"] == "m"
    values = json.loads(run("report", folder, "--full", "--json"))
    assert set(values["disclosure"]) == set(disclosure(REPORT, "1"))
    found.write_text('{"other": 1}')
    with pytest.raises(DataError, match="none of the metrics"):
        run("report", folder, "--full", "--utility", found)
    run("report", folder, "--full", "--verify", code=2)
    run("report", folder, "--utility", found, code=2)


def test_every_item_is_on_the_page() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/explanation/standards.md").read_text()
    for name in disclosure(REPORT, "1"):
        assert name in page
