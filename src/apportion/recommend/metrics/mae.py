"""Mean absolute error of predicted ratings."""

import numpy as np

from apportion.recommend.metrics.rows import RowMetric

MAE = RowMetric(of_row=np.abs, of_mean=lambda mean: mean)
