"""Whose warnings are errors: ours, not those of packages that we use."""

import warnings

import pytest


@pytest.mark.parametrize("category", [DeprecationWarning, FutureWarning, UserWarning])
@pytest.mark.parametrize("module", ["click.core", "pyparsing", "apportionment", "matplotlib.tests"])
def test_warnings_of_others_are_no_errors(module: str, category: type[Warning]) -> None:
    with warnings.catch_warnings(record=True):
        warnings.warn_explicit("old", category, "file.py", 1, module)


@pytest.mark.parametrize("category", [DeprecationWarning, RuntimeWarning, UserWarning])
@pytest.mark.parametrize("module", ["apportion", "apportion.cli.fit", "tests.test_warnings"])
def test_our_own_are(module: str, category: type[Warning]) -> None:
    with pytest.raises(category, match="old"):
        warnings.warn_explicit("old", category, "file.py", 1, module)


def test_that_is_where_this_file_is() -> None:
    with pytest.raises(UserWarning, match="from here"):
        warnings.warn("from here", stacklevel=1)
