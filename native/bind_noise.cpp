// The border of noise.cpp: arrays are checked here.
#include "arrays.hpp"

void bind_noise(nb::module_&) {}
