"""Root mean squared error of predicted ratings."""

import numpy as np

from apportion.recommend.metrics.rows import RowMetric

RMSE = RowMetric(of_row=np.square, of_mean=np.sqrt)
