// Sums over users of clipped gradients. The gradient of an example is loss'(theta . x, y) x, of norm |loss'| |x|.
//
// Clipped row by row, to C:      w s x / max(1, |s| |x| / C),  s = loss'.
// Clipped user by user, to C:    all of a user's w s x, over max(1, N / C), with N^2 = the sum over the user's
// tasks of
//                                (the sum of |w s| |x| there)^2: no less than the squared norm over all tasks.
//
// Then every number is divided by the grid and rounded toward zero, which makes no norm larger: a part has norm at
// most C / grid (times w <= 1). What is left of C by rounding (1e-15 of it) is the caller's margin of 1e-9. An
// example whose slope is not finite, or whose features are smaller than any data, gives nothing.
//
// No sum overflows: a number that is not below 2^28 units gives zero (C is at most 2^26 of them), and the sum of
// 2^32 rows (counted at the border) fits into 64 bits.
#include "gradients.hpp"

#include <algorithm>
#include <cmath>

#include "losses.hpp"
#include "memory.hpp"
#include "vectors.hpp"

namespace ISA {
namespace {

constexpr double MOST_UNITS = 268435456.0, SMALLEST = 1e-150;
constexpr int64_t SEEN = 4096;  // rows between two looks whether to stop

// Eight numbers, or as many as there are and zeros.
Doubles load_some(const double* from, int64_t count) {
    if (count >= 8) return Doubles::load(from);
    double lanes[8] = {};
    std::copy_n(from, count, lanes);
    return Doubles::load(lanes);
}

double margin(const double* theta, const double* x, int64_t d) {
    Doubles sum{};
    for (int64_t k = 0; k < d; k += 8) sum = fused(load_some(theta + k, d - k), load_some(x + k, d - k), sum);
    return total(sum);
}

// Toward zero, as whole numbers; zero if it is not below MOST_UNITS.
Longs whole(Doubles x) {
    const Doubles large = Doubles::spread(4503599627370496.0);  // 2^52: rounds a number below 2^51 to a whole one
    const Doubles length = size(x), most = Doubles::spread(MOST_UNITS);
    Doubles near = (length + large) - large;
    near = select(length < near, near - Doubles::spread(1.0), near);
    near = select(length < most, near, Doubles{});
    const Longs units = bits_as<Longs>(near + large) - bits_as<Longs>(large);
    return select(x < Doubles{}, -units, units);
}

// total += slope x, in whole units: slope is divided by the grid already.
void add_units(int64_t* total, const double* x, double slope, int64_t d) {
    const Doubles factor = Doubles::spread(slope);
    int64_t k = 0;
    for (; k + 8 <= d; k += 8) (Longs::load(total + k) + whole(factor * Doubles::load(x + k))).store(total + k);
    if (k < d) {
        int64_t lanes[8];
        whole(factor * load_some(x + k, d - k)).store(lanes);
        for (int64_t i = 0; k + i < d; i++) total[k + i] += lanes[i];
    }
}

double usable(double slope, double norm) {
    return std::isfinite(slope) && norm >= SMALLEST ? slope : 0.0;
}

double shortened(double slope, double excess) {
    return excess > 1.0 ? slope / excess : slope;
}

double slope_of(const Examples& all, int64_t row, int64_t task) {
    const int64_t place = all.feature_row[row];
    const double z = margin(all.coef + task * all.d, all.features + place * all.d, all.d);
    return usable(derivative(all.loss, z, all.label[row]), all.norms[place]);
}

void of_rows(const RowGradients& all, Work& work) {
    const Examples& rows = all.rows;
    const int64_t d = rows.d;
    Room<int64_t> units(d);
    Room<double> floats(d);
    for (int64_t piece; (piece = work.take()) >= 0;) {
        const Piece& own = all.pieces[piece];
        std::fill_n(units.data(), d, int64_t(0));
        std::fill_n(floats.data(), d, 0.0);
        for (int64_t row = own.first; row < own.stop; row++) {
            if ((row - own.first) % SEEN == 0 && work.stopped()) break;
            if (rows.weight[row] == 0.0) continue;
            const int64_t place = rows.feature_row[row];
            double slope = slope_of(rows, row, own.task);
            slope = rows.weight[row] * shortened(slope, std::fabs(slope) * (rows.norms[place] / rows.bound));
            const double* x = rows.features + place * d;
            if (all.units)
                add_units(units.data(), x, slope / rows.grid, d);
            else
                for (int64_t k = 0; k < d; k++) floats[k] += slope * x[k];
        }
        if (all.units) {
            all.locks->lock(own.task);
            for (int64_t k = 0; k < d; k++) all.units[own.task * d + k] += units[k];
            all.locks->unlock(own.task);
        } else {
            std::copy_n(floats.data(), d, all.floats + piece * d);
        }
    }
}

void of_users(const UserGradients& all, Work& work) {
    const Examples& rows = all.rows;
    const int64_t d = rows.d;
    int64_t longest = 0;
    for (int64_t user = 0; user < all.users; user++)
        longest = std::max(longest, all.start[user + 1] - all.start[user]);
    Room<double> slopes(longest);
    Room<int64_t> units(rows.tasks * d);
    for (int64_t block; (block = work.take()) >= 0;)
        for (int64_t user = block * GRADIENTS_AT_ONCE; user < std::min((block + 1) * GRADIENTS_AT_ONCE, all.users);
             user++) {
            const int64_t first = all.start[user], stop = all.start[user + 1];
            double excess = 0.0;   // the squared norm of the user's gradient, in units of the bound
            double in_task = 0.0;  // the sum of norms of the user's rows in the current task, likewise
            for (int64_t row = first; row < stop; row++) {
                if ((row - first) % SEEN == 0 && work.stopped()) return;
                double slope = 0.0;
                if (rows.weight[row] != 0.0) slope = rows.weight[row] * slope_of(rows, row, all.task[row]);
                slopes[row - first] = slope;
                if (slope != 0.0)  // no length is zero times infinity
                    in_task += std::fabs(slope) * (rows.norms[rows.feature_row[row]] / rows.bound);
                if (row + 1 == stop || all.task[row + 1] != all.task[row]) {
                    excess += in_task * in_task;
                    in_task = 0.0;
                }
            }
            excess = std::sqrt(excess);
            for (int64_t row = first; row < stop; row++) {
                const double slope = shortened(slopes[row - first], excess);
                if (slope != 0.0)
                    add_units(units.data() + all.task[row] * d, rows.features + rows.feature_row[row] * d,
                              slope / rows.grid, d);
            }
        }
    for (int64_t task = 0; task < rows.tasks && !work.stopped(); task++) {
        all.locks->lock(task);
        for (int64_t k = task * d; k < (task + 1) * d; k++) all.units[k] += units[k];
        all.locks->unlock(task);
    }
}

double one_derivative(const Loss& loss, double z, double y) {
    return derivative(loss, z, y);
}

}  // namespace

extern const GradientKernels gradients = {of_rows, of_users, one_derivative};

}  // namespace ISA
