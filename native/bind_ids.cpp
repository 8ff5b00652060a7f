// The border of ids.cpp: arrays are checked here.
#include "arrays.hpp"

void bind_ids(nb::module_&) {}
