// The border of topk.cpp: arrays are checked here.
#include "arrays.hpp"

void bind_topk(nb::module_&) {}
