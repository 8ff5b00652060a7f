"""How good the defaults are: against private baselines, the paper's methods and a wide search.

python -m benchmarks.quality --data DIR --short
python -m benchmarks.quality --data DIR --results quality.jsonl
python -m benchmarks.quality --report --results quality.jsonl

``sets`` says on what, ``splits`` how a model is scored, ``baselines``, ``methods`` and ``oracle`` what is
compared, ``results`` keeps every run in a file of JSON lines, from which an interrupted run is resumed,
``report`` makes the table and the figure. ``published`` is the comparison with the paper's tuned methods.
"""
