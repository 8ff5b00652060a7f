// The border of solves.cpp: arrays are checked here.
#include "arrays.hpp"

void bind_solves(nb::module_&) {}
