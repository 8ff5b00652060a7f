"""All figures and tables of the paper that need a recommender, from the archives that there are.

A model is trained once for all figures that it is in. Its scores are written as soon as they are known, with
the settings that led to them, so that a run that was interrupted resumes where it stopped.
"""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from apportion.data.files import written_whole
from apportion.data.simulate import SHAPES, simulate_interactions
from apportion.recommend import Recommender, presets
from apportion.recommend.files import load
from apportion.studies.benchmark import (
    EPSILONS,
    METHODS,
    METRICS,
    Benchmark,
    Case,
    Row,
    Split,
    benchmarks_of,
    read_benchmarks,
)
from apportion.studies.exponent import EXPONENTS
from apportion.studies.neighbors import COMPARED, EXPONENT, Neighbors, Titles
from apportion.studies.published import figures_of

DATA = ("ml-10m", "ml-20m", "msd")
# What the archives are called as they are distributed.
ARCHIVES = {"ml-10m": "ml-10m.zip", "ml-20m": "ml-20m.zip", "msd": "train_triplets.txt.zip"}
# Where none of them is there. The paper does not use it.
STAND_IN = "ml-1m"
_SCALED: tuple[Literal["users", "items", "rows"], ...] = ("users", "items", "rows")
# Figures 7 and 9: of the Million Song Dataset the paper has least squares, and three exponents.
_FEW = (0.25, 0.5, 1.0)


def find_archives(folder: Path) -> dict[str, Path]:
    """The archives (or unpacked folders) of the paper's data sets in a folder, by name.

    If there is none, that of MovieLens-1M, which can stand in.
    """

    found: dict[str, Path] = {}
    for name in (*DATA, STAND_IN):
        places = [folder / each for each in (ARCHIVES.get(name, name), f"{name}.zip", name)]
        place = next((place for place in places if place.exists()), None)
        if place is not None and not (name == STAND_IN and found):
            found[name] = place
    return found


def of_archive(name: str, path: Path, held_out: int | None = None) -> list[Benchmark]:
    """The benchmark of an archive; of one that stands in both, each under a name of its own."""
    found = read_benchmarks(name, path, None, held_out)
    if name == STAND_IN:
        for each in found:
            each.name = f"{name}-{each.protocol}"
    return found


def simulated(
    name: str, scale: float = 1.0, held_out: int | None = None, seed: int = 0
) -> Benchmark:
    """A benchmark on simulated data with the size and the tails of a data set.

    Users, items, rows and held-out users are multiplied by ``scale``: an item then has as many rows as
    before, and noise weighs as much.
    """
    shape = SHAPES[name]
    users, items, rows = (math.ceil(scale * shape[key]) for key in _SCALED)
    data = simulate_interactions(
        users=users,
        items=max(items, math.ceil(5 * rows / users)),  # a user takes an item once
        rows=rows,
        rating_range=shape["rating_range"],
        popular_tenth=shape["popular_tenth"],
        active_tenth=shape["active_tenth"],
        seed=seed,
    )
    if held_out is None and scale != 1:
        held_out = math.ceil(scale * (50_000 if name == "msd" else 10_000))
    return benchmarks_of(name, data, None, held_out)[0]


@dataclass(frozen=True)
class Everything:
    """Settings of a run.

    Args:
        benchmarks: of the data sets that there are.
        folder: for results; what is there is not trained again.
        epsilons, seeds: the budgets, the repetitions.
        titles: of the items of each data set, by name, where there are any.
    """

    benchmarks: Sequence[Benchmark]
    folder: Path
    epsilons: Sequence[float] = EPSILONS
    seeds: int = 1
    titles: Mapping[str, Titles] | None = None

    @cached_property
    def jobs(self) -> "list[Job]":
        """All models to train, once each, data set by data set."""
        return [
            Job(benchmark, seed, case, self.folder)
            for benchmark in self.benchmarks
            for seed in range(self.seeds)
            for case in _cases(benchmark, self.epsilons)
        ]

    def run(self, on_fit: Callable[["Job"], object]) -> list[Row]:
        """A row per model and exponent; models that are trained already are read. ``on_fit`` is told each."""
        rows: list[Row] = []
        split: Split | None = None
        last: tuple[str, int] | None = None
        for job in self.jobs:
            row = job.read()
            if row is None:
                if last != (job.benchmark.name, job.seed) or split is None:
                    split, last = job.benchmark.split(job.seed), (job.benchmark.name, job.seed)
                start = time.perf_counter()
                row = job.train(split)
                job.write(row, time.perf_counter() - start)
            rows += job.views(row)
            on_fit(job)
        return rows

    def neighbors(self) -> "dict[str, tuple[list[Row], list[Row], list[str]]]":
        """Overlaps, lists and unknown titles of the data sets whose neighbors the paper shows."""
        found = {}
        for benchmark in self.benchmarks:
            if figures_of(benchmark.name) != "ml-20m" or 1.0 not in self.epsilons:
                continue
            titles = (self.titles or {}).get(benchmark.name, {})
            study = Neighbors(benchmark, titles, epsilons=(1.0,), seeds=self.seeds)
            overlap: list[Row] = []
            for seed in range(self.seeds):
                jobs = {
                    job.case: job
                    for job in self.jobs
                    if (job.benchmark, job.seed) == (benchmark, seed)
                }
                reference = jobs[Case("ALS")].model()
                models = {(name, 1.0): jobs[study.case(name, 1.0)].model() for name in COMPARED}
                split = benchmark.split(seed)
                for (name, epsilon), model in models.items():
                    where = {
                        "data": benchmark.name,
                        "method": name,
                        "epsilon": epsilon,
                        "seed": seed,
                    }
                    overlap.append({**where, **study.overlap(model, reference, split)})
                if seed == 0:
                    lists, unknown = study.lists(reference, models)
            found[benchmark.name] = overlap, lists, unknown
        return found


def _cases(benchmark: Benchmark, epsilons: Sequence[float]) -> Iterator[Case]:
    """What the figures of a data set need, once each."""
    least_squares = benchmark.name == "msd"
    exponents = _FEW if least_squares else EXPONENTS
    for name, method in METHODS.items():
        if least_squares and method.solver != "ssp":
            continue
        if method.budget == "not private":
            yield Case(name)
            continue
        for epsilon in epsilons:
            yield Case(name, epsilon)
            if method.budget == "adaptive":
                own = benchmark.exponent(name)
                yield from (Case(name, epsilon, each) for each in exponents if each != own)


@dataclass(frozen=True, eq=False)
class Job:
    """A model to train, and where its scores go."""

    benchmark: Benchmark
    seed: int
    case: Case
    folder: Path

    @property
    def name(self) -> str:
        """As a file is called."""
        case = self.case
        parts = [
            self.benchmark.name,
            case.method.replace(" ", "-"),
            f"{case.epsilon:g}",
            f"seed{self.seed}",
        ]
        if case.weight_exponent is not None:
            parts.insert(3, f"mu{case.weight_exponent:.3g}")
        return "_".join(parts)

    @property
    def _file(self) -> Path:
        return self.folder / "fits" / f"{self.name}.json"

    @property
    def _kept(self) -> bool:
        """Whether the model itself is needed, for its neighbors."""
        case = self.case
        exponent = EXPONENT if case.method == "AdaDPALS" else None
        of_figure = (
            case.epsilon == 1.0 and case.method in COMPARED and case.weight_exponent == exponent
        )
        has_neighbors = figures_of(self.benchmark.name) == "ml-20m"
        return has_neighbors and (case.method == "ALS" or of_figure)

    @cached_property
    def _made_with(self) -> dict[str, str]:
        """All that the scores depend on: another setting or other data, and they are not read."""
        params = self.benchmark.model(self.case, self.seed).get_params()
        return {
            "data": self.benchmark.summary,
            **{key: repr(value) for key, value in params.items()},
        }

    def read(self) -> Row | None:
        """The scores of an earlier run with the same settings."""
        if not self._file.exists() or (self._kept and not self._folder.exists()):
            return None
        found = json.loads(self._file.read_text())
        return found["row"] if found["made_with"] == self._made_with else None

    def write(self, row: Row, seconds: float) -> None:
        """Keep the scores."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        content = {"row": row, "seconds": round(seconds, 2), "made_with": self._made_with}
        with written_whole(self._file) as temporary:
            temporary.write_text(json.dumps(content, indent=1))

    def train(self, split: Split) -> Row:
        """Train and score."""
        model = self.benchmark.model(self.case, self.seed).fit(split.train)
        if self._kept:
            model.save(self._folder)
        where = {"data": self.benchmark.name, "protocol": self.benchmark.protocol}
        scores = {"metric": METRICS[self.benchmark.protocol], **split.scores(model)}
        return {**where, **vars(self.case), "seed": self.seed, **scores}

    def model(self) -> Recommender:
        """The trained model, where it is kept."""
        return load(self._folder)

    @property
    def _folder(self) -> Path:
        return self.folder / "models" / self.name

    def views(self, row: Row) -> list[Row]:
        """The row, and the same under its own exponent, if the case leaves that to the settings."""
        method = METHODS[self.case.method]
        if method.budget != "adaptive" or self.case.weight_exponent is not None:
            return [row]
        return [row, {**row, "weight_exponent": self.benchmark.exponent(self.case.method)}]

    @property
    def work(self) -> tuple[float, float, float]:
        """What training costs: systems of users and items, noise and solves of items, rows of gradients."""
        model = self.benchmark.model(self.case, self.seed)
        data, d = self.benchmark.data, int(model.factors)
        rows = float(len(data.by_user.other)) * int(model.sweeps)
        items = float(data.items) * self.benchmark.learned * int(model.sweeps)
        users = float(data.users) * int(model.sweeps)
        if METHODS[self.case.method].solver == "ssp":
            return 2 * rows * d**2 + users * d**3 / 3, items * d**2 * (1 + d / 3), 0.0
        steps = int(model.get_params()["solver__steps"])
        return rows * d**2 + users * d**3 / 3, items * d * steps, rows * d * steps


def calibrate() -> tuple[float, float, float]:
    """Seconds for a unit of each kind of work here, from three small trainings on simulated data."""
    wide = simulate_interactions(users=3000, items=60, rows=90_000)
    long = simulate_interactions(users=500, items=4000, rows=20_000)

    def seconds(data: Any, solver: Literal["ssp", "descent"]) -> float:
        model = presets.algorithm_3(1.0, factors=32, sweeps=2, solver=solver, noise_seed=0)
        start = time.perf_counter()
        model.fit(data)
        return time.perf_counter() - start

    d, of_users = 32, 2 * (2 * 90_000 * 32**2 + 3000 * 32**3 / 3)
    per_row = seconds(wide, "ssp") / of_users
    per_item = seconds(long, "ssp") / (2 * 4000 * d**2 * (1 + d / 3))
    per_step = seconds(wide, "descent") / (2 * 90_000 * (d**2 / 2 + 5 * d))
    return per_row, per_item, per_step


def estimate(jobs: Sequence[Job], speed: tuple[float, float, float]) -> list[float]:
    """Seconds that each job may take; those that are done take none. Within a factor of about two."""
    return [
        0.0 if job.read() is not None else sum(w * s for w, s in zip(job.work, speed, strict=True))
        for job in jobs
    ]
