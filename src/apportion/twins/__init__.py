"""What the compiled kernels compute, in NumPy: readable, and what tests compare them with."""
