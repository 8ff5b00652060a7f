"""An entry for the public registry of deployments of differential privacy (OpenDP, proposed for NIST).

Its fields are those of the schema of ``opendp/deployments-registry-data``. What only the owner
knows (names, region, purpose, sources, about how many people) is left empty, with a comment: the entry is a
draft for a person to finish.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from apportion.accounts.report import PrivacyReport
from apportion.errors import ParameterError

_OWNER = "to be filled in by the owner"
# What the schema takes there.
_ALLOWED = {
    "data_curator_type": "Government, Industry or Nonprofit",
    "data_product_sector": "Technology, Healthcare, Education, Government, Energy or Finance",
    "publication_date": "a date in quotes, as 2026-05-31",
    "number_of_privacy_units": "about how many people are in the data; a public figure",
}


def registry_entry(report: PrivacyReport, items: Mapping[str, str], name: str) -> str:
    """The entry as YAML; ``items`` are those of ``disclosure``, ``name`` is the model's."""
    if not report.private:
        raise ParameterError("the registry is for private models, and this one is not private")
    relation = items["guarantee"].partition(". ")[2]
    entry = {
        "url_slug": "".join(c if c.isascii() and c.isalnum() else "_" for c in name.lower()),
        "deployment": {
            "basic": {
                "name": name,
                "data_curators": [{"data_curator_name": "", "data_curator_type": ""}],
                "description": "",
                "intended_use": "",
                "data_product_type": "Machine learning model",
                "data_product_region": "",
                "data_product_sector": "",
                "publication_date": "",
            },
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": "",
                "unprotected_quantities": items["not protected"],
            },
            "privacy_loss": {
                "privacy_unit": "User-level",
                "privacy_unit_details": f"{items['unit of privacy']} {items['neighboring data']}",
                "number_of_privacy_units": None,
                "privacy_parameters": {"epsilon": _above(report.epsilon), "delta": report.delta},
                "privacy_parameters_details": f"{relation} {items['best attacker']}".strip(),
            },
            "deployment_model": {
                "model_name": "Central",
                "model_name_details": items["trust model"],
                "trust_assumptions": items["side channels"],
                "actors": "",
                "release_type": "Many releases" if report.budget else "One release",
                "release_type_details": f"{items['query model']} {items['releases']}",
                "data_source_type": "Static",
                "data_source_type_details": "The data as they were when the training was run.",
                "access_type": "Non-interactive",
                "access_type_details": "",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": items["tuning and exploration"],
                "mechanisms": f"{items['mechanisms']} {items['arithmetic']}",
                "composition": items["accounting"],
                "post_processing": items["post-processing"],
                "justification": "",
                "utility": items["utility"],
                "additional_information": items["software"],
            },
            "administrative": {
                "evidence_sources": {},
                "status": "Draft",
                "registry_authors": [""],
                "tier": 2,
            },
        },
    }
    return "\n".join([f"# Empty fields are {_OWNER}.", *_lines(entry, 0)]) + "\n"


def _above(epsilon: float) -> float:
    """Rounded up to six digits: what is stated must not be less than what holds."""
    digits = 6 - math.ceil(math.log10(epsilon))
    return float(math.ceil(epsilon * 10.0**digits) / 10.0**digits)


def _lines(value: Mapping[str, Any], depth: int) -> Iterator[str]:
    """A mapping as YAML; texts in double quotes, as JSON writes them, which YAML reads alike."""
    pad = "  " * depth
    for name, each in value.items():
        if isinstance(each, Mapping) and each:
            yield f"{pad}{name}:"
            yield from _lines(each, depth + 1)
        elif isinstance(each, list):
            yield f"{pad}{name}:"
            for one in each:
                if isinstance(one, Mapping):
                    first, *rest = _lines(one, depth + 2)
                    yield f"{pad}  - {first.strip()}"
                    yield from rest
                else:
                    yield f"{pad}  - {json.dumps(one)}"
        elif each is None:  # no number is known, and an empty one would be wrong
            yield f"{pad}# {name}:  {_OWNER}: {_ALLOWED[name]}"
        else:
            allowed = f": {_ALLOWED[name]}" if name in _ALLOWED else ""
            comment = f"  # {_OWNER}{allowed}" if each == "" else ""
            yield f"{pad}{name}: {_scalar(each)}{comment}"


def _scalar(value: Any) -> str:
    """A number or a text. A power of ten needs a point before it, or readers of YAML take it for text."""
    text = json.dumps(value)
    if isinstance(value, float) and "e" in text and "." not in text:
        return text.replace("e", ".0e", 1)
    return text
