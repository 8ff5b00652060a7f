// Users' vectors, one user after the other:
//
//     v = argmin  sum (y - x.v)^2 + v' (shared + ridge I) v        over the user's rows (x, y).
//
// With the eigenvectors Q of what all users share, shared = Q S Q', and items turned by Q, this is
// (X'X + D) v = X'y with D = S + ridge I diagonal. It is solved in float32, which is enough: a user's vector is the
// user's own, and is bounded in float64 before anything is released. In this order, until one is good enough:
//
// 1. Conjugate gradients, without X'X, preconditioned by its diagonal S = diag(A), A = X'X + D. No eigenvalue of
//    S^-1 A is below 1 / grown, grown = max S / D, so an error e of v that leaves r = A e has, in the norm of S,
//    |e| <= grown (r'S^-1 r)^1/2. They stop where this is at most 1e-5 of |v|: less than what is lost where
//    vectors become 16-bit numbers.
// 2. A Cholesky factor of the smaller of the two systems: (Z Z' + I) a = y, v = D^-1/2 Z'a with Z = X D^-1/2, if
//    there are fewer rows than factors; otherwise A itself, the solution corrected once where a pivot lost much.
// 3. Float64, plain and slow. A direction whose pivot is lost in rounding is left out.
//
// Whoever shows numbers to people asks for the third at once.
//
// Nothing that is computed for a user depends on who else is there: a vector has the same bits for any threads.
#include "users.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cholesky.hpp"
#include "memory.hpp"
#include "vectors.hpp"

namespace ISA {
namespace {

constexpr int AHEAD = 12, TILE = 64;
constexpr int64_t LONG = 1024;  // rows: then there is time to look for signals
// Of conjugate gradients. After a quarter of the steps a fifth of the way must be done: it goes on about as it
// began. Where the diagonal has grown by more than GROWN, what float32 rounds off r could alone be as much as
// SETTLED.
constexpr int STEPS = 16, SOON = 4;
constexpr double SETTLED = 1e-10, BY_THEN = 1e-2, GROWN = 30.0;
// A pivot so much smaller than its place on the diagonal asks for a correction, which must be at most this large.
constexpr float DOUBTFUL = 30.0f;
constexpr double CHANGE = 1e-2;
// Numbers within the bounds of a size, and of a square, float32 holds to all their digits.
constexpr float LARGE = 1e30f, SMALL = 1e-30f;
constexpr double SMALL_SQUARE = 1e-24, LARGE_SQUARE = 1e30;
constexpr double LOST = 1e-14;  // of a pivot in float64, times d

bool fits(double square) {
    return SMALL_SQUARE < square && square < LARGE_SQUARE;
}

// One user's rows, and room of a thread's own: vectors of `width`, and a matrix and tiles for factors.
struct System {
    const UserSystems& all;
    Work& work;
    int64_t user, first, count, width;
    float *v, *left, *whole, *inverse, *diagonal, *p, *q, *rows, *matrix;

    const float* source(int64_t row) const { return all.turned + width * all.item[first + row]; }
    double label(int64_t row) const { return all.label[first + row]; }
    void ask_for(int64_t row) const {
        const int64_t ahead = std::min(first + row + AHEAD, all.rows - 1);
        const float* x = all.turned + width * all.item[ahead];
        for (int64_t k = 0; k < width; k += 16) __builtin_prefetch(x + k);
    }
};

float product(const float* x, const float* y, int64_t width) {
    Floats sum{};
    for (int64_t k = 0; k < width; k += 16) sum = fused(Floats::load(x + k), Floats::load(y + k), sum);
    return total(sum);
}

// out += factor * x.
void add_scaled(float* out, const float* x, float factor, int64_t width) {
    const Floats scale = Floats::spread(factor);
    for (int64_t k = 0; k < width; k += 16) fused(scale, Floats::load(x + k), Floats::load(out + k)).store(out + k);
}

// Rows of a user lie in tiles of sixteen, or eight where at most eight are left: sixteen numbers of each row, then
// the next sixteen of each. Zeros fill up the last tile.
template <class Function>
void each_tile(int64_t count, Function work) {
    int64_t at = 0;
    for (; at + 8 < count; at += 16) work(std::integral_constant<int, 16>{}, at);
    if (at < count) work(std::integral_constant<int, 8>{}, at);
}

// Gather all rows, left += X'y, whole += the diagonal of X'X.
void gather(System& own) {
    const int64_t width = own.width;
    each_tile(own.count, [&](auto tile_rows, int64_t at) {
        constexpr int rows = tile_rows;
        const float* source[rows];
        float y[rows];
        for (int i = 0; i < rows; i++) {
            const bool there = at + i < own.count;
            source[i] = there ? own.source(at + i) : own.all.turned + width * own.all.nothing;
            y[i] = there ? float(own.label(at + i)) : 0.0f;
            own.ask_for(at + i);
        }
        float* tile = own.rows + at * width;
        for (int64_t k = 0; k < width; k += 16, tile += rows * 16) {
            Floats b = Floats::load(own.left + k), squares = Floats::load(own.whole + k);
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                const Floats x = Floats::load(source[i] + k);
                x.store(tile + i * 16);
                b = fused(Floats::spread(y[i]), x, b);
                squares = fused(x, x, squares);
            }
            b.store(own.left + k);
            squares.store(own.whole + k);
        }
    });
}

// q += X'X p, a tile at a time: X p of its rows, then the sum of the rows times that. Returns p'X'X p.
float multiply(const System& own) {
    Floats squares{};
    each_tile(own.count, [&](auto tile_rows, int64_t at) {
        constexpr int rows = tile_rows;
        const float* tile = own.rows + at * own.width;
        float along[16] = {};
        constexpr int together = PARTS == 1 ? rows : 8;  // whose sums registers hold
        for (int first = 0; first < rows; first += together) {
            Floats sums[together] = {};
            for (int64_t k = 0; k < own.width; k += 16) {
                const Floats p = Floats::load(own.p + k);
#pragma GCC unroll 16
                for (int i = 0; i < together; i++)
                    sums[i] = fused(p, Floats::load(tile + k * rows + (first + i) * 16), sums[i]);
            }
            for (int i = 0; i < together; i += 8) totals(sums + i, along + first + i);
        }
        const Floats all = Floats::load(along);
        squares = fused(all, all, squares);
        for (int64_t k = 0; k < own.width; k += 16) {
            Floats even = Floats::load(own.q + k), odd{};
#pragma GCC unroll 8
            for (int i = 0; i < rows; i += 2) {
                even = fused(Floats::spread(along[i]), Floats::load(tile + k * rows + i * 16), even);
                odd = fused(Floats::spread(along[i + 1]), Floats::load(tile + k * rows + i * 16 + 16), odd);
            }
            (even + odd).store(own.q + k);
        }
    });
    return total(squares);
}

// v += along p, r -= along q; r'S^-1 r and v'S v.
std::pair<float, float> step(System& own, float along) {
    Floats unexplained{}, length{};
    const Floats factor = Floats::spread(along), less = -factor;
    for (int64_t k = 0; k < own.width; k += 16) {
        const Floats v = fused(factor, Floats::load(own.p + k), Floats::load(own.v + k));
        const Floats left = fused(less, Floats::load(own.q + k), Floats::load(own.left + k));
        v.store(own.v + k);
        left.store(own.left + k);
        unexplained = fused(left, left * Floats::load(own.inverse + k), unexplained);
        length = fused(v, v * Floats::load(own.whole + k), length);
    }
    return {total(unexplained), total(length)};
}

// p = S^-1 r + before p, q = D p; p'D p.
float turn(System& own, float before) {
    Floats sum{};
    const Floats factor = Floats::spread(before);
    for (int64_t k = 0; k < own.width; k += 16) {
        Floats p = Floats::load(own.left + k) * Floats::load(own.inverse + k);
        p = fused(factor, Floats::load(own.p + k), p);
        p.store(own.p + k);
        const Floats q = Floats::load(own.diagonal + k) * p;
        q.store(own.q + k);
        sum = fused(p, q, sum);
    }
    return total(sum);
}

// 1. False if it does not settle.
bool solve_by_steps(System& own) {
    const int64_t width = own.width;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    std::fill_n(own.v, width, 0.0f);
    std::fill_n(own.p, width, 0.0f);
    std::fill_n(own.left, width, 0.0f);
    std::copy_n(own.diagonal, width, own.whole);
    gather(own);
    Floats lowest = Floats::spread(1.0f);
    for (int64_t k = 0; k < width; k += 16) {
        const Floats inverse = Floats::spread(1.0f) / Floats::load(own.whole + k);
        inverse.store(own.inverse + k);
        lowest = lesser(Floats::load(own.diagonal + k) * inverse, lowest);
    }
    float lanes[16];
    lowest.store(lanes);
    const double least = *std::min_element(lanes, lanes + 16);  // one over how much the diagonal has grown
    if (!(least * GROWN >= 1.0)) return false;
    double size = turn(own, 0.0f), unexplained = product(own.left, own.p, width);
    if (!(fits(unexplained) && fits(product(own.left, own.left, width)) && fits(product(own.p, own.p, width))))
        return false;
    const double needed = SETTLED * least * least, by_then = BY_THEN * least * least;
    for (int number = 1; number <= STEPS; number++) {
        if (own.count > LONG && own.work.stopped()) return false;
        size += multiply(own);
        const auto [after, length] = step(own, float(unexplained / size));
        if (double(after) <= needed * double(length)) return true;
        if (!(double(after) < infinity && (number != SOON || double(after) <= by_then * double(length))))
            return false;
        size = turn(own, float(double(after) / unexplained));
        unexplained = after;
    }
    return false;
}

// 2, with as many unknowns as rows (order: in whole vectors). False if float32 is not enough.
bool solve_dual(System& own, int64_t order) {
    const int64_t width = own.width;
    float *matrix = own.matrix, *tile = matrix + order * order, *y = own.p, *a = own.q, *scale = own.inverse;
    for (int64_t k = 0; k < width; k++) scale[k] = k < own.all.d ? 1.0f / __builtin_sqrtf(own.diagonal[k]) : 0.0f;
    std::fill_n(matrix, order * order, 0.0f);
    std::fill_n(tile, width * order, 0.0f);
    for (int64_t p = 0; p < order; p++) {
        matrix[p * order + p] = 1.0f;
        y[p] = p < own.count ? float(own.label(p)) : 0.0f;
    }
    for (int64_t p = 0; p < own.count; p++) {
        own.ask_for(p);
        const float* x = own.source(p);
        for (int64_t k = 0; k < own.all.d; k++) tile[k * order + p] = x[k] * scale[k];
    }
    add_gram(tile, tile, width, matrix, order);
    for (int64_t p = 0; p < order; p++)
        if (!(matrix[p * order + p] > SMALL)) return false;
    if (!(cholesky(matrix, order) <= DOUBTFUL)) return false;
    substitute(matrix, y, a, order);
    std::fill_n(own.v, width, 0.0f);
    for (int64_t p = 0; p < own.count; p++) add_scaled(own.v, own.source(p), a[p], width);
    for (int64_t k = 0; k < width; k++) own.v[k] = own.v[k] * scale[k] * scale[k];
    return true;
}

// X'y - A v in float64, where v is what was found so far.
void unexplained(const System& own, double* left) {
    const int64_t width = own.width;
    std::fill_n(left, width, 0.0);
    for (int64_t row = 0; row < own.count; row++) {
        const float* x = own.source(row);
        Doubles sum{};
        for (int64_t k = 0; k < width; k += 8) sum = fused(load_doubles(x + k), load_doubles(own.v + k), sum);
        const Doubles error = Doubles::spread(own.label(row) - total(sum));
        for (int64_t k = 0; k < width; k += 8)
            fused(error, load_doubles(x + k), Doubles::load(left + k)).store(left + k);
    }
    for (int64_t k = 0; k < own.all.d; k++) left[k] = left[k] - double(own.diagonal[k]) * double(own.v[k]);
}

// 2, with as many unknowns as factors.
bool solve_primal(System& own) {
    const int64_t width = own.width;
    float *matrix = own.matrix, *tile = matrix + width * width;
    std::fill_n(matrix, width * width, 0.0f);
    std::fill_n(own.left, width, 0.0f);
    for (int64_t k = 0; k < width; k++) matrix[k * width + k] = own.diagonal[k];
    for (int64_t begin = 0; begin < own.count; begin += TILE) {
        if (own.work.stopped()) return false;
        const int64_t rows = std::min<int64_t>(TILE, own.count - begin);
        for (int64_t i = 0; i < rows; i++) {
            own.ask_for(begin + i);
            std::copy_n(own.source(begin + i), width, tile + i * width);
            add_scaled(own.left, tile + i * width, float(own.label(begin + i)), width);
        }
        add_gram(tile, tile, rows, matrix, width);
    }
    for (int64_t k = 0; k < width; k++)
        if (!(matrix[k * width + k] > SMALL)) return false;
    const float lost = cholesky(matrix, width);
    if (!(lost < std::numeric_limits<float>::infinity())) return false;
    substitute(matrix, own.left, own.v, width);
    if (lost <= DOUBTFUL) return true;
    Room<double> left(width);
    unexplained(own, left.data());
    for (int64_t k = 0; k < width; k++) own.left[k] = float(left[k]);
    substitute(matrix, own.left, own.q, width);
    double length = 0.0, changed = 0.0;
    for (int64_t k = 0; k < width; k++) {
        own.v[k] = own.v[k] + own.q[k];
        length += std::fabs(double(own.v[k]));
        changed += std::fabs(double(own.q[k]));
    }
    return changed <= CHANGE * length;
}

// out[k] += factor * x[k], from a multiple of 8 on.
void add_scaled(double* out, const double* x, double factor, int64_t first, int64_t width) {
    const Doubles scale = Doubles::spread(factor);
    for (int64_t k = first; k < width; k += 8)
        fused(scale, Doubles::load(x + k), Doubles::load(out + k)).store(out + k);
}

// 3. Into v [width]; zeros if there are no rows.
void solve_exactly(const UserSystems& all, int64_t user, Work& work, double* v) {
    const int64_t d = all.d, width = (d + 7) / 8 * 8;
    std::fill_n(v, all.width, 0.0);
    if (all.start[user] == all.start[user + 1]) return;
    Room<double> room((width + 1) * width);
    double *A = room.data(), *x = A + width * width;
    for (int64_t p = 0; p < d; p++) {
        std::copy_n(all.shared + p * d, d, A + p * width);
        A[p * width + p] += all.ridge[user];
    }
    for (int64_t row = all.start[user]; row < all.start[user + 1]; row++) {
        if (work.stopped()) return;
        std::copy_n(all.items + d * all.item[row], d, x);
        add_scaled(v, x, all.label[row], 0, width);
        for (int64_t p = 0; p < d; p++) add_scaled(A + p * width, x, x[p], p / 8 * 8, width);
    }
    double largest = 0.0;
    for (int64_t p = 0; p < d; p++) largest = A[p * width + p] > largest ? A[p * width + p] : largest;
    const double least = LOST * double(d) * largest;
    for (int64_t p = 0; p < d; p++) {
        if (work.stopped()) return;
        double* row = A + p * width;
        if (!(row[p] > least)) {
            std::fill_n(row + p, width - p, 0.0);
            v[p] = 0.0;
            continue;
        }
        const double inverse = 1.0 / std::sqrt(row[p]);
        for (int64_t q = p; q < d; q++) row[q] = row[q] * inverse;
        std::fill_n(row + p / 8 * 8, p % 8, 0.0);  // below the diagonal
        v[p] = v[p] * inverse;
        for (int64_t q = p + 1; q < d; q++) {
            add_scaled(A + q * width, row, -row[q], q / 8 * 8, width);
            v[q] = v[q] - row[q] * v[p];
        }
    }
    for (int64_t p = d - 1; p >= 0; p--) {
        const double* row = A + p * width;
        if (row[p] == 0.0) {
            v[p] = 0.0;
            continue;
        }
        double rest = v[p];
        for (int64_t q = p + 1; q < d; q++) rest = rest - row[q] * v[q];
        v[p] = rest / row[p];
    }
}

// Into own.v; false if float32 is not enough.
bool solve_quickly(System& own, double least) {
    const UserSystems& all = own.all;
    const double ridge = all.ridge[own.user];
    const bool determined = ridge + least > 0.0;
    const int64_t order = (own.count + 15) / 16 * 16;
    for (int64_t k = 0; k < all.d; k++) own.diagonal[k] = float(ridge + all.eigenvalues[k]);
    bool good = determined && own.count <= all.most && solve_by_steps(own);
    if (!good && determined && order < own.width) good = solve_dual(own, order);
    if (!good && (determined || own.count >= all.d)) good = solve_primal(own);
    if (!good) return false;
    Floats sum{};
    for (int64_t k = 0; k < own.width; k += 16) sum = sum + size(Floats::load(own.v + k));
    const float length = total(sum);
    return SMALL < length && length < LARGE;
}

// A vector [width] as 16-bit whole numbers of norm at most 2^15 - 1. Rounding moves it by at most sqrt(d) / 2
// units, so `limit` is that much less than the bound: |short| <= limit / unit + sqrt(d) / 2 <= 2^15 - 1. A vector
// that is not finite has no direction: it gives zeros.
void shorten(double* v, int64_t d, double limit, double unit, bool stretch, int16_t* out, int64_t width) {
    std::fill_n(out, width, int16_t(0));
    const int64_t whole = (d + 7) / 8 * 8;
    bool finite = true;
    Doubles most{};
    for (int64_t k = 0; k < whole; k += 8) most = greater(most, size(Doubles::load(v + k)));
    for (int64_t k = 0; k < d; k++) finite &= std::isfinite(v[k]);
    double largest = 0.0, lanes[8];
    most.store(lanes);
    for (double lane : lanes) largest = lane > largest ? lane : largest;
    if (!finite || largest == 0.0) return;
    Doubles squares{};  // over the largest entry, so that no square overflows
    const Doubles scale = Doubles::spread(largest);
    for (int64_t k = 0; k < whole; k += 8) {
        const Doubles x = Doubles::load(v + k) / scale;
        squares = squares + x * x;
    }
    const double norm = std::sqrt(total(squares));
    const bool change = stretch || norm > limit / largest;
    const double factor = limit / norm;
    for (int64_t k = 0; k < d; k++) {
        const double bounded = change ? v[k] / largest * factor : v[k];
        // The nearest whole number, the even one of two: below 2^51 this leaves no digits after the point.
        constexpr double large = 6755399441055744.0;
        out[k] = int16_t((bounded / unit + large) - large);
    }
}

// found [users, width] times back, eight users at a time. The numbers of each are added in the same order.
void turn_back(const float* found, const UserSystems& all, float* turned) {
    const int64_t width = all.width;
    std::fill_n(turned, USERS_AT_ONCE * width, 0.0f);
    for (int64_t at = 0; at < USERS_AT_ONCE; at += PANEL)
        add_panel<1>(Strided<float>{found + at * width, 1, width}, all.back, width, turned + at * width, 0, width);
}

void solve(const UserSystems& all, Work& work) {
    const int64_t width = all.width;
    int64_t longest = 0;  // rows of those who are tried by steps
    for (int64_t user = 0; user < all.users; user++) {
        const int64_t count = all.start[user + 1] - all.start[user];
        if (count <= all.most) longest = std::max(longest, count);
    }
    Room<float> vectors(7 * width), rows((longest + 16) * width);
    Room<float> answers(USERS_AT_ONCE * width), turned(USERS_AT_ONCE * width);
    Room<float> matrix((width + std::max<int64_t>(width, TILE)) * width);
    Room<double> exact(width);
    float* at = vectors.data();
    auto take = [&] { return std::exchange(at, at + width); };
    System own{all,    work,   0,      0,      0,      width,       nullptr,      take(),
               take(), take(), take(), take(), take(), rows.data(), matrix.data()};
    std::fill_n(own.diagonal, width, 1.0f);
    double least = std::numeric_limits<double>::infinity();
    for (int64_t k = 0; k < all.d; k++) least = all.eigenvalues[k] < least ? all.eigenvalues[k] : least;
    for (int64_t block; (block = work.take()) >= 0;) {
        const int64_t begin = block * USERS_AT_ONCE, users = std::min(USERS_AT_ONCE, all.users - begin);
        bool good[USERS_AT_ONCE], nothing[USERS_AT_ONCE];
        for (int64_t i = 0; i < users; i++) {
            own.user = begin + i;
            own.first = all.start[own.user];
            own.count = all.start[own.user + 1] - own.first;
            own.v = answers.data() + i * width;
            nothing[i] = true;  // that is to be explained
            for (int64_t row = 0; row < own.count && nothing[i]; row++) nothing[i] = own.label(row) == 0.0;
            good[i] = nothing[i] || (!all.exact && solve_quickly(own, least));
            if (nothing[i] || !good[i]) std::fill_n(own.v, width, 0.0f);
        }
        const float* found = answers.data();
        if (all.back) {
            turn_back(answers.data(), all, turned.data());
            found = turned.data();
        }
        for (int64_t i = 0; i < users; i++) {
            const int64_t user = begin + i;
            double* v = exact.data();
            if (good[i])
                for (int64_t k = 0; k < width; k++) v[k] = double(found[i * width + k]);
            else
                solve_exactly(all, user, work, v);
            if (all.vectors) std::copy_n(v, all.d, all.vectors + user * all.d);
            if (all.shorts) shorten(v, all.d, all.limit, all.unit, all.stretch, all.shorts + user * width, width);
        }
    }
}

void shorten_rows(const ShortRows& all, Work& work) {
    Room<double> room(all.width);
    double* v = room.data();
    for (int64_t block; (block = work.take()) >= 0;)
        for (int64_t row = block * ROWS_AT_ONCE; row < std::min((block + 1) * ROWS_AT_ONCE, all.count); row++) {
            std::copy_n(all.rows + row * all.d, all.d, v);
            shorten(v, all.d, all.limit, all.unit, all.stretch, all.shorts + row * all.width, all.width);
        }
}

}  // namespace

extern const UserKernels users = {solve, shorten_rows};

}  // namespace ISA
