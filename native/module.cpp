// The extension module: everything that Python may call. Arrays are checked in the bind_*.cpp files.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "digest.hpp"
#include "isa.hpp"

namespace nb = nanobind;

void bind_users(nb::module_& module);
void bind_sums(nb::module_& module);
void bind_gradients(nb::module_& module);
void bind_solves(nb::module_& module);
void bind_noise(nb::module_& module);
void bind_sorting(nb::module_& module);
void bind_ids(nb::module_& module);
void bind_topk(nb::module_& module);
void bind_simulate(nb::module_& module);

NB_MODULE(_native, module) {
    isa();  // an APPORTION_ISA that this processor does not have is an error here
    module.attr("digest") = DIGEST;
    module.def("isa", &isa_name);
    module.def("isas", &isas);
    module.def("use_isa", &use_isa, nb::arg("name"));
    bind_users(module);
    bind_sums(module);
    bind_gradients(module);
    bind_solves(module);
    bind_noise(module);
    bind_sorting(module);
    bind_ids(module);
    bind_topk(module);
    bind_simulate(module);
}
