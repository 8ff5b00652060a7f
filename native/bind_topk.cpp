// The border of topk.cpp: arrays are checked here.
#include <algorithm>

#include "arrays.hpp"
#include "topk.hpp"

namespace {

nb::object top(nb::handle scores_, int64_t k, nb::handle start_, nb::handle skip_, int64_t threads) {
    const auto scores = given<float, 2>(scores_, "scores");
    const auto start = given<int64_t>(start_, "start"), skip = given<int64_t>(skip_, "skip");
    const int64_t rows = scores.shape(0), columns = scores.shape(1);
    require(k >= 0, "k must not be negative");
    require_length(start.shape(0), rows + 1, "start");
    const int64_t first = start.data()[0], end = start.data()[rows];
    require(first >= 0 && end <= skip.shape(0) && std::is_sorted(start.data(), start.data() + rows + 1),
            "start must not fall, and hold places of skip");
    require_range(skip.data() + first, end - first, 0, columns, "skip", threads);
    const Result<int64_t> places(rows, k);
    const Result<float> best(rows, k);
    const Top all{scores.data(), start.data(), skip.data(), rows, columns, k, places.data, best.data};
    Work work(k ? rows : 0);
    run(work, threads, [&] { topk_kernels().top(all, work); });
    return nb::make_tuple(places.object, best.object);
}

nb::object turn_items(nb::handle items_, int64_t threads) {
    const auto items = given<float, 2>(items_, "items");
    const int64_t columns = items.shape(0), d = items.shape(1), panels = (columns + PANEL - 1) / PANEL;
    const Result<float> turned(panels * PANEL, d);
    const Turning all{items.data(), columns, d, turned.data};
    Work work(panels);
    run(work, threads, [&] { topk_kernels().turn_items(all, work); });
    return turned.object;
}

nb::object score(nb::handle vectors_, nb::handle panels_, int64_t columns, int64_t threads) {
    const auto vectors = given<float, 2>(vectors_, "vectors"), panels = given<float, 2>(panels_, "panels");
    const int64_t rows = vectors.shape(0), d = panels.shape(1);
    require(vectors.shape(1) == d, "vectors and panels must have as many columns");
    require(columns >= 0 && columns <= panels.shape(0) && (columns + PANEL - 1) / PANEL * PANEL == panels.shape(0),
            "panels must hold the columns");
    const Result<float> scores(rows, columns);
    const Scoring all{vectors.data(), panels.data(), rows, columns, d, scores.data};
    Work work((rows + ROWS_OF_SCORES - 1) / ROWS_OF_SCORES);
    run(work, threads, [&] { topk_kernels().score(all, work); });
    return scores.object;
}

}  // namespace

void bind_topk(nb::module_& module) {
    module.def("top", &top, "scores"_a, "k"_a, "start"_a, "skip"_a, "threads"_a);
    module.def("turn_items", &turn_items, "items"_a, "threads"_a);
    module.def("score", &score, "vectors"_a, "panels"_a, "columns"_a, "threads"_a);
}
