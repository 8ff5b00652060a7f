"""Runs what is missing in the file of results, and reports."""

import argparse
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.quality import baselines, oracle, report
from benchmarks.quality.methods import default
from benchmarks.quality.results import Results, Row
from benchmarks.quality.sets import SETS, DataSet
from benchmarks.quality.splits import EventSplit, RatingSplit, Score, Split, split

EPSILONS = (1.0, 5.0, 20.0, math.inf)
SEEDS, SHORT_SEEDS = 5, 1

Run = tuple[str, Callable[[], tuple[Score, dict[str, Any]]]]


def runs(
    data_set: DataSet, part: Split, epsilon: float, seed: int, wanted: set[str]
) -> Iterator[Run]:
    """What is to be run on a split: the method's name, and what gives its score and settings."""
    if "baselines" in wanted:
        scores: dict[str, Score] = {}

        def baseline(name: str) -> tuple[Score, dict[str, Any]]:
            if not scores:
                scores.update(_baselines(part, epsilon, seed))
            return scores[name], {}

        explicit = data_set.feedback == "explicit"
        for name in ("constant", "user mean", "bias") if explicit else ("popularity",):
            yield name, partial(baseline, name)
    if "default" in wanted:

        def train() -> tuple[Score, dict[str, Any]]:
            model = default(data_set.feedback, epsilon, seed).fit(part.train)
            return part.score(model), dict(model.privacy.chosen)

        yield "default", train


def _baselines(part: Split, epsilon: float, seed: int) -> dict[str, Score]:
    if isinstance(part, RatingSplit):
        return baselines.rating_baselines(part, epsilon, seed)
    assert isinstance(part, EventSplit)
    return baselines.popularity(part, epsilon, seed)


def search(
    data_set: DataSet, part: Split, epsilon: float, trials: int, method: oracle.Method
) -> Iterator[Run]:
    """A method's trials, all on the first split."""
    for number in range(trials):

        def train(number: int = number) -> tuple[Score, dict[str, Any]]:
            rating_range = part.train.rating_range
            settings = oracle.trial(
                data_set.name, data_set.feedback, rating_range, epsilon, number, method
            )
            model = oracle.model(data_set.feedback, epsilon, 0, settings, method).fit(part.train)
            return part.score(model), settings

        yield f"{trial_name(method)} {number}", train


def trial_name(method: oracle.Method) -> str:
    """What a method's trials are called in the file of results."""
    return "trial" if method == "oracle" else f"{method} trial"


def retrain(
    data_set: DataSet,
    part: Split,
    epsilon: float,
    seed: int,
    settings: dict[str, Any],
    method: oracle.Method,
) -> Callable[[], tuple[Score, dict[str, Any]]]:
    """What trains with these settings on this split."""

    def train() -> tuple[Score, dict[str, Any]]:
        model = oracle.model(data_set.feedback, epsilon, seed, settings, method).fit(part.train)
        return part.score(model), settings

    return train


def best_trial(
    results: Results, data_set: DataSet, epsilon: float, method: oracle.Method
) -> dict[str, Any] | None:
    """The settings with the best validation score."""
    rows = [
        row
        for row in results
        if row["set"] == data_set.name
        and float(row["epsilon"]) == epsilon
        and str(row["method"]).startswith(f"{trial_name(method)} ")
    ]
    if not rows:
        return None
    sign = 1 if data_set.feedback == "explicit" else -1
    return dict(min(rows, key=lambda row: sign * float(row["validation"]))["settings"])


def main(words: Sequence[str] | None = None, sets: Mapping[str, DataSet] = SETS) -> None:
    options = parse(words, sets)
    results = Results(options.results)
    if not options.report:
        deadline = time.monotonic() + 60 * options.minutes
        for data_set in [sets[name] for name in options.sets]:
            if not run_set(data_set, options, results, deadline):
                print("the time is over: call again to go on")
                break
    print(report.table(results, sets))
    if options.figure is not None:
        report.figure(results, sets, options.figure)


def run_set(
    data_set: DataSet, options: argparse.Namespace, results: Results, deadline: float
) -> bool:
    """All that is missing of a set; False if the time is over."""
    wanted = set(options.methods)
    for seed in range(options.seeds):
        data = data_set.load(options.data, seed)
        if data is None:
            print(f"{data_set.name}: not at hand, skipped")
            return True
        part = split(data_set, data, seed)
        for epsilon in options.epsilons:
            todo = list(runs(data_set, part, epsilon, seed, wanted))
            searched = [each for each in oracle.methods_at(epsilon) if each in wanted]
            if seed == 0:
                for each in searched:
                    todo += search(data_set, part, epsilon, options.trials, each)
            for method, run in todo:
                if not run_one(data_set, epsilon, method, seed, run, results, deadline):
                    return False
            for each in searched:
                best = best_trial(results, data_set, epsilon, each)
                if best is not None:
                    again = retrain(data_set, part, epsilon, seed, best, each)
                    if not run_one(data_set, epsilon, each, seed, again, results, deadline):
                        return False
    return True


def run_one(
    data_set: DataSet,
    epsilon: float,
    method: str,
    seed: int,
    run: Callable[[], tuple[Score, dict[str, Any]]],
    results: Results,
    deadline: float,
) -> bool:
    """Unless it was done before; False if the time is over."""
    row: Row = {"set": data_set.name, "epsilon": epsilon, "method": method, "seed": seed}
    if results.has(row):
        return True
    if time.monotonic() > deadline:
        return False
    start = time.monotonic()
    score, settings = run()
    row |= {"validation": score.validation, "test": score.test, "settings": settings}
    results.add({**row, "seconds": round(time.monotonic() - start, 2)})
    print(f"{data_set.name:<28} {epsilon:<5g} {method:<12} {seed} {score.test:.4f}", flush=True)
    return True


def parse(words: Sequence[str] | None, sets: Mapping[str, DataSet]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality")
    parser.add_argument("--data", type=Path, default=Path(), help="folder of .npz archives")
    parser.add_argument("--results", type=Path, default=Path("quality.jsonl"))
    parser.add_argument("--short", action="store_true", help="few sets, seeds and trials")
    parser.add_argument("--report", action="store_true", help="report what is there, run nothing")
    parser.add_argument("--figure", type=Path, help="where to write the figure (SVG or PNG)")
    parser.add_argument("--sets", nargs="*", choices=list(sets))
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(EPSILONS))
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--trials", type=int)
    parser.add_argument("--minutes", type=float, default=math.inf)
    everything = ["baselines", "default", *oracle.METHODS]
    parser.add_argument("--methods", nargs="*", default=everything, choices=everything)
    options = parser.parse_args(words)
    if options.sets is None:
        options.sets = [name for name, each in sets.items() if each.short or not options.short]
    if options.seeds is None:
        options.seeds = SHORT_SEEDS if options.short else SEEDS
    if options.trials is None:
        options.trials = oracle.SHORT_TRIALS if options.short else oracle.TRIALS
    return options


if __name__ == "__main__":
    main()
