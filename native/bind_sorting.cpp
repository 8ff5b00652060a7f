// The border of sorting.cpp: arrays are checked here.
#include "arrays.hpp"

void bind_sorting(nb::module_&) {}
