// The border of users.cpp: arrays are checked here.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <nanobind/stl/optional.h>

#include "arrays.hpp"
#include "memory.hpp"
#include "threads.hpp"
#include "users.hpp"

namespace {

// A user's rows are gathered for conjugate gradients: so many numbers at most, which fit into a cache. With many
// factors they are faster all the same, beyond it.
constexpr int64_t NARROW = 32, WIDE = 128, CACHED = int64_t(1) << 17, GATHERED = int64_t(1) << 22;
constexpr double LONGEST = 32767.0, MARGIN = 1e-9;

int64_t whole_vectors(int64_t d) {
    return (d + 15) / 16 * 16;
}

// The rule by which vectors become 16-bit numbers: their unit, and the length that they may have before.
struct ShortRule {
    double unit, limit;
    ShortRule(double bound, int64_t d) {
        require(std::isfinite(bound) && bound >= 1e-100 && bound <= 1e100, "bound must be from 1e-100 to 1e100");
        require(d < (int64_t(1) << 26), "so many factors are not rounded to 16 bits");
        unit = bound / LONGEST;
        limit = (bound - unit * std::sqrt(double(d)) / 2) * (1 - MARGIN);
    }
};

nb::object short_rows(nb::handle rows_, double bound, bool stretch, int64_t threads) {
    const auto rows = given<double, 2>(rows_, "rows");
    const int64_t count = rows.shape(0), d = rows.shape(1), width = whole_vectors(d);
    const ShortRule rule(bound, d);
    Result<int16_t> shorts(count, width);
    const ShortRows all{rows.data(), count, d, width, rule.limit, rule.unit, stretch, shorts.data};
    Work work((count + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE);
    run(work, threads, [&] { users_kernels().shorten(all, work); });
    return shorts.object;
}

nb::object solve_users(nb::handle start_, nb::handle item_, nb::handle label_, nb::handle items_, nb::handle ridge_,
                       nb::handle shared_, nb::handle turned_, nb::handle eigenvalues_, nb::handle turn_,
                       std::optional<double> bound, bool stretch, int64_t threads, bool exact) {
    const auto start = given<int64_t>(start_, "start");
    const auto item = given<int32_t>(item_, "item");
    const auto label = given<double>(label_, "label");
    const auto items = given<double, 2>(items_, "items");
    const auto ridge = given<double>(ridge_, "ridge");
    const auto shared = given<double, 2>(shared_, "shared");
    const auto turned = given<double, 2>(turned_, "turned");
    const auto eigenvalues = given<double>(eigenvalues_, "eigenvalues");
    const auto turn = given<double, 2>(turn_, "turn");
    const int64_t users = ridge.shape(0), rows = item.shape(0), count = items.shape(0), d = items.shape(1);
    const int64_t width = whole_vectors(d);
    require_length(start.shape(0), users + 1, "start");
    require_starts(start, rows, "start");
    require_length(label.shape(0), rows, "label");
    require_range(item.data(), rows, 0, count, "item", threads);
    require_length(turned.shape(0), count, "turned");
    require_length(turned.shape(1), d, "turned's second axis");
    require_length(eigenvalues.shape(0), d, "eigenvalues");
    require(d > 0 && d <= (1 << 20), "items must have 1 to 2^20 factors");
    require(shared.shape(0) == d && shared.shape(1) == d, "shared must be square, of the factors");
    const bool turns = turn.shape(0) != 0;
    require(!turns || (turn.shape(0) == d && turn.shape(1) == d), "turn must be square, of the factors, or empty");

    ISA::Room<float> small((count + 1) * width), back(turns ? width * width : 0);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < d; k++) small[i * width + k] = float(turned.data()[i * d + k]);
    if (turns)
        for (int64_t p = 0; p < d; p++)
            for (int64_t q = 0; q < d; q++) back[q * width + p] = float(turn.data()[p * d + q]);
    std::vector<double> kept(eigenvalues.data(), eigenvalues.data() + d);
    for (double& each : kept) each = each > 0.0 ? each : 0.0;
    UserSystems all{};
    all.start = start.data();
    all.item = item.data();
    all.label = label.data();
    all.items = items.data();
    all.ridge = ridge.data();
    all.shared = shared.data();
    all.turned = small.data();
    all.eigenvalues = kept.data();
    all.back = turns ? back.data() : nullptr;
    all.users = users;
    all.rows = rows;
    all.nothing = count;
    all.exact = exact;
    all.d = d;
    all.width = width;
    all.most = width < NARROW ? -1 : (width < WIDE ? CACHED : GATHERED) / width;
    Work work((users + USERS_AT_ONCE - 1) / USERS_AT_ONCE);
    auto solve = [&] { run(work, threads, [&] { users_kernels().solve(all, work); }); };
    if (bound) {
        const ShortRule rule(*bound, d);
        all.unit = rule.unit;
        all.limit = rule.limit;
        all.stretch = stretch;
        Result<int16_t> shorts(users, width);
        all.shorts = shorts.data;
        solve();
        return shorts.object;
    }
    Result<double> vectors(users, d);
    all.vectors = vectors.data;
    solve();
    return vectors.object;
}

}  // namespace

void bind_users(nb::module_& module) {
    module.def("solve_users", &solve_users, "start"_a, "item"_a, "label"_a, "items"_a, "ridge"_a, "shared"_a,
               "turned"_a, "eigenvalues"_a, "turn"_a, "bound"_a.none(), "stretch"_a, "threads"_a,
               "exact"_a = false);
    module.def("short_rows", &short_rows, "rows"_a, "bound"_a, "stretch"_a, "threads"_a);
}
