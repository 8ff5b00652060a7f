"""The newcomers' comparison."""

import inspect

import apportion as ap
from apportion.studies import demo


def test_the_demo_shows_the_default_and_what_it_says_is_true() -> None:
    result = demo.run()
    assert result.report.private
    assert 1 - 1e-9 < result.report.epsilon <= 1.0
    averages, equal, default, exact = (errors.rmse for errors in result.errors.values())
    # Measured: 0.807, 0.687, 0.681, 0.623; ten seeds differ by less than 0.01.
    assert exact < default < averages - 0.05
    assert default < equal + 0.01
    assert (
        result.errors[demo.DEFAULT].rmse_by_bucket[0] < result.errors[demo.EQUAL].rmse_by_bucket[0]
    )
    assert result.bucket_sizes == sorted(result.bucket_sizes)
    assert len(result.recommended) == 5
    assert not {item for item, _ in result.recommended} & set(result.history)
    first, second, third = result.conclusion()
    assert f"the default's error is {default:.3f}" in first
    assert f"{1 - default / averages:.0%} below that of averages" in first
    assert "equal budgets on the rarest fifth" in second
    assert f"{result.errors[demo.EXACT].rmse_by_bucket[0]:.3f} without privacy" in third


def test_nothing_but_the_budget_is_set() -> None:
    # What is shown is what a newcomer gets.
    assert (
        "model = MatrixFactorization(epsilon=epsilon, delta=delta).fit(train)"
        in inspect.getsource(demo.run)
    )
    assert ap.MatrixFactorization().get_params(deep=False)["solver"] == "ssp"
