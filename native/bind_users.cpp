// The border of users.cpp: arrays are checked here.
#include "arrays.hpp"

void bind_users(nb::module_&) {}
