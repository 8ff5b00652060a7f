// The border of gradients.cpp: arrays are checked here.
#include <cmath>
#include <string>
#include <vector>

#include <nanobind/stl/string.h>

#include "arrays.hpp"
#include "gradients.hpp"
#include "threads.hpp"

namespace {

constexpr int64_t MOST_ROWS = int64_t(1) << 32;

Loss loss_of(const std::string& name, double parameter, uintptr_t function) {
    constexpr const char* names[] = {"squared",  "logistic", "hinge", "huber",
                                     "absolute", "poisson",  "given", "function"};
    for (int kind = 0; kind < 8; kind++) {
        if (name != names[kind]) continue;
        const Loss loss{LossKind(kind), parameter, reinterpret_cast<double (*)(double, double)>(function)};
        require(loss.kind != LossKind::function || function != 0, "the loss 'function' needs a function's address");
        require(std::isfinite(parameter), "the parameter of a loss must be finite");
        require(loss.kind != LossKind::hinge || parameter > 0, "the width of a hinge loss must be above 0");
        return loss;
    }
    throw nb::value_error(("there is no loss '" + name + "'").c_str());
}

struct GivenExamples {
    Array<const double, 2> features;
    Array<const double> norms;
    Array<const int32_t> feature_row;
    Array<const double> label, weight;
    Array<const double, 2> coef;

    GivenExamples(nb::handle features_, nb::handle norms_, nb::handle feature_row_, nb::handle label_,
                  nb::handle weight_, nb::handle coef_)
        : features(features_, "features"),
          norms(norms_, "norms"),
          feature_row(feature_row_, "feature_row"),
          label(label_, "label"),
          weight(weight_, "weight"),
          coef(coef_, "coef") {}

    int64_t rows() const { return feature_row.shape(0); }

    Examples checked(const Loss& loss, double bound, double grid, int64_t threads) const {
        const int64_t d = features.shape(1);
        require(rows() < MOST_ROWS, "so many rows are not summed at once: at most 2^32");
        require_length(norms.shape(0), features.shape(0), "norms");
        require_length(label.shape(0), rows(), "label");
        require_length(weight.shape(0), rows(), "weight");
        require_length(coef.shape(1), d, "coef's second axis");
        require(bound > 0, "bound must be above 0");
        require_range(feature_row.data(), rows(), 0, features.shape(0), "feature_row", threads);
        require_weights(weight.data(), rows(), threads);
        return {features.data(),
                norms.data(),
                feature_row.data(),
                label.data(),
                weight.data(),
                coef.data(),
                d,
                coef.shape(0),
                loss,
                bound,
                grid};
    }
};

void require_grid(double bound, double grid) {
    require_size(grid, "grid");
    require(bound / grid <= 134217728.0, "grid must not be below the bound over 2^27");
}

nb::object row_gradients(nb::handle features, nb::handle norms, nb::handle feature_row, nb::handle label,
                         nb::handle weight, nb::handle start_, nb::handle coef, const std::string& loss,
                         double parameter, uintptr_t function, double bound, double grid, int64_t threads) {
    const GivenExamples examples(features, norms, feature_row, label, weight, coef);
    const auto start = given<int64_t>(start_, "start");
    require_grid(bound, grid);
    const Examples rows = examples.checked(loss_of(loss, parameter, function), bound, grid, threads);
    require_starts(start, examples.rows(), "start");
    require_length(start.shape(0), rows.tasks + 1, "start");
    const std::vector<Piece> pieces = pieces_of(start.data(), rows.tasks, MOST_ROWS);
    Result<int64_t> units(rows.tasks, rows.d);
    Locks locks;
    const RowGradients all{rows, pieces.data(), units.data, nullptr, &locks};
    Work work(int64_t(pieces.size()));
    run(work, threads, [&] { gradients_kernels().of_rows(all, work); });
    return units.object;
}

nb::object float_gradients(nb::handle features, nb::handle norms, nb::handle feature_row, nb::handle label,
                           nb::handle weight, nb::handle start_, nb::handle coef, const std::string& loss,
                           double parameter, uintptr_t function, double bound, int64_t threads) {
    const GivenExamples examples(features, norms, feature_row, label, weight, coef);
    const auto start = given<int64_t>(start_, "start");
    const Examples rows = examples.checked(loss_of(loss, parameter, function), bound, 0.0, threads);
    require_starts(start, examples.rows(), "start");
    require_length(start.shape(0), rows.tasks + 1, "start");
    const std::vector<Piece> pieces = pieces_of(start.data(), rows.tasks, FLOAT_PIECES);
    const int64_t count = int64_t(pieces.size()), d = rows.d;
    std::vector<double> parts(size_t(count * d));
    const RowGradients all{rows, pieces.data(), nullptr, parts.data(), nullptr};
    Work work(count);
    run(work, threads, [&] { gradients_kernels().of_rows(all, work); });
    Result<double> sums(rows.tasks, d);
    for (int64_t piece = 0; piece < count; piece++)  // in order
        for (int64_t k = 0; k < d; k++)
            sums.data[pieces[size_t(piece)].task * d + k] += parts[size_t(piece * d + k)];
    return sums.object;
}

nb::object user_gradients(nb::handle features, nb::handle norms, nb::handle feature_row, nb::handle label,
                          nb::handle weight, nb::handle task_, nb::handle start_, nb::handle coef,
                          const std::string& loss, double parameter, uintptr_t function, double bound, double grid,
                          int64_t threads) {
    const GivenExamples examples(features, norms, feature_row, label, weight, coef);
    const auto task = given<int32_t>(task_, "task");
    const auto start = given<int64_t>(start_, "start");
    require_grid(bound, grid);
    const Examples rows = examples.checked(loss_of(loss, parameter, function), bound, grid, threads);
    require_length(task.shape(0), examples.rows(), "task");
    require_range(task.data(), task.shape(0), 0, rows.tasks, "task", threads);
    require_starts(start, examples.rows(), "start");
    const int64_t users = start.shape(0) - 1;
    for (int64_t user = 0; user < users; user++)  // or the bound of a task that comes twice would be too low
        for (int64_t row = start.data()[user] + 1; row < start.data()[user + 1]; row++)
            require(task.data()[row - 1] <= task.data()[row], "the rows of a user must be sorted by task");
    Result<int64_t> units(rows.tasks, rows.d);
    Locks locks;
    const UserGradients all{rows, task.data(), start.data(), users, units.data, &locks};
    Work work((users + GRADIENTS_AT_ONCE - 1) / GRADIENTS_AT_ONCE);
    run(work, threads, [&] { gradients_kernels().of_users(all, work); });
    return units.object;
}

nb::object derivatives(nb::handle margin_, nb::handle label_, const std::string& loss, double parameter) {
    const auto margin = given<double>(margin_, "margin"), label = given<double>(label_, "label");
    require_length(label.shape(0), margin.shape(0), "label");
    const Loss known = loss_of(loss, parameter, 0);
    Result<double> slopes(margin.shape(0));
    for (int64_t row = 0; row < margin.shape(0); row++)
        slopes.data[row] = gradients_kernels().derivative(known, margin.data()[row], label.data()[row]);
    return slopes.object;
}

}  // namespace

void bind_gradients(nb::module_& module) {
    module.def("row_gradients", &row_gradients, "features"_a, "norms"_a, "feature_row"_a, "label"_a, "weight"_a,
               "start"_a, "coef"_a, "loss"_a, "parameter"_a, "function"_a, "bound"_a, "grid"_a, "threads"_a);
    module.def("float_gradients", &float_gradients, "features"_a, "norms"_a, "feature_row"_a, "label"_a, "weight"_a,
               "start"_a, "coef"_a, "loss"_a, "parameter"_a, "function"_a, "bound"_a, "threads"_a);
    module.def("user_gradients", &user_gradients, "features"_a, "norms"_a, "feature_row"_a, "label"_a, "weight"_a,
               "task"_a, "start"_a, "coef"_a, "loss"_a, "parameter"_a, "function"_a, "bound"_a, "grid"_a,
               "threads"_a);
    module.def("derivatives", &derivatives, "margin"_a, "label"_a, "loss"_a, "parameter"_a);
}
