"""What the compiled kernels compute, in NumPy: slower, readable, and the definition that tests compare with."""
