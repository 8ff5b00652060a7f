// The border of solves.cpp: arrays are checked here.
#include <cmath>
#include <optional>

#include "arrays.hpp"
#include "solves.hpp"

namespace {

// Arrays for as long as a call takes, and what the kernels see of them.
class Given {
public:
    Given(nb::handle packed, nb::handle b, nb::handle alpha, nb::handle scale, nb::handle shared)
        : packed_(packed, "packed"),
          b_(b, "b"),
          alpha_(alpha, "alpha"),
          theta(b_.shape(0), b_.shape(1)),
          failed(b_.shape(0)) {
        const int64_t systems = b_.shape(0), n = b_.shape(1);
        require(n >= 1 && n <= 32768, "b must have 1 to 32768 columns");
        const int64_t entries = n * (n + 1) / 2;
        require_length(packed_.shape(0), systems, "packed");
        require(packed_.shape(1) == entries, "packed must have d (d + 1) / 2 columns");
        require_length(alpha_.shape(0), systems, "alpha");
        require(scale.is_none() == shared.is_none(), "scale and shared go together");
        if (!scale.is_none()) {
            scale_.emplace(scale, "scale");
            shared_.emplace(shared, "shared");
            require_length(scale_->shape(0), systems, "scale");
            require_length(shared_->shape(0), entries, "shared");
        }
        all = {packed_.data(),
               scale_ ? scale_->data() : nullptr,
               shared_ ? shared_->data() : nullptr,
               b_.data(),
               alpha_.data(),
               systems,
               n,
               theta.data,
               failed.data};
    }
    nb::object solved() const { return nb::make_tuple(theta.object, failed.object); }

    Systems all;

private:
    Array<const double, 2> packed_, b_;
    Array<const double> alpha_;
    std::optional<Array<const double>> scale_, shared_;
    Result<double> theta;
    Result<bool> failed;
};

int64_t pieces_of(int64_t systems, int64_t at_once) {
    return (systems + at_once - 1) / at_once;
}

nb::object solve_filtered(nb::handle packed, nb::handle b, nb::handle alpha, double ridge, double most,
                          double least, int64_t most_sweeps, bool single, nb::handle scale, nb::handle shared,
                          int64_t threads) {
    Given given(packed, b, alpha, scale, shared);
    require(ridge >= 0 && std::isfinite(ridge), "ridge must not be negative");
    require(most_sweeps >= 1 && most_sweeps <= 1'000'000, "most_sweeps must be from 1 to 1000000");
    const Filter filter{ridge, most, least, most_sweeps};
    const SolveKernels& kernels = solves_kernels();
    Work work(pieces_of(given.all.systems, single ? 32 : 16));
    run(work, threads,
        [&] { (single ? kernels.filtered_float : kernels.filtered_double)(given.all, filter, work); });
    return given.solved();
}

nb::object solve_positive(nb::handle packed, nb::handle b, nb::handle alpha, nb::handle scale, nb::handle shared,
                          int64_t threads) {
    Given given(packed, b, alpha, scale, shared);
    Work work(pieces_of(given.all.systems, 8));
    run(work, threads, [&] { solves_kernels().positive(given.all, work); });
    return given.solved();
}

}  // namespace

void bind_solves(nb::module_& module) {
    module.def("solve_filtered", &solve_filtered, "packed"_a, "b"_a, "alpha"_a, "ridge"_a, "most"_a, "least"_a,
               "most_sweeps"_a, "single"_a, "scale"_a.none(), "shared"_a.none(), "threads"_a);
    module.def("solve_positive", &solve_positive, "packed"_a, "b"_a, "alpha"_a, "scale"_a.none(), "shared"_a.none(),
               "threads"_a);
}
