// Solutions of many small symmetric systems, one in each lane of the vectors.
//
//     solve_filtered    theta = V f(l) V' b,  A = V diag(l) V',  f(l) = v / (v^2 + ridge^2),  v = max(l, 0) + alpha
//     solve_positive    theta = (A + alpha I)^-1 b, by Cholesky
//
// A and b are released already: no bound rests on this file. A lane does the same arithmetic whatever its
// neighbors are, so a solution does not depend on which others it is found with, nor on the threads.
//
// V is never computed. Reflections make A tridiagonal and rotations (implicit QL) make it diagonal; both are
// applied to b as they come, its entries are multiplied by f, and both are taken back in reverse.
//
// Matrices come as upper triangles, row by row, [systems, d (d + 1) / 2]. Inside, entry e of the matrices of a
// batch is the vector at e; what waits for one result after the other takes two batches at once (Two).
#include "solves.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "memory.hpp"
#include "vectors.hpp"

namespace ISA {
namespace {

constexpr double EPSILON = std::numeric_limits<double>::epsilon();
// Nothing is divided by a number smaller than this.
constexpr double NORMAL = std::numeric_limits<double>::min() * (1 + 1.0 / 1048576);

// Two vectors that do not wait for each other.
template <class Number>
struct Two {
    static constexpr int LANES = 2 * Vector<Number>::LANES;
    Vector<Number> low, high;

    static Two spread(Number x) { return {Vector<Number>::spread(x), Vector<Number>::spread(x)}; }
    static Two load(const Number* from) {
        return {Vector<Number>::load(from), Vector<Number>::load(from + Vector<Number>::LANES)};
    }
    void store(Number* to) const {
        low.store(to);
        high.store(to + Vector<Number>::LANES);
    }
    friend Two operator-(Two a) { return {-a.low, -a.high}; }
    friend Two operator+(Two a, Two b) { return {a.low + b.low, a.high + b.high}; }
    friend Two operator-(Two a, Two b) { return {a.low - b.low, a.high - b.high}; }
    friend Two operator*(Two a, Two b) { return {a.low * b.low, a.high * b.high}; }
    friend Two operator/(Two a, Two b) { return {a.low / b.low, a.high / b.high}; }
    friend Two operator&(Two a, Two b) { return {a.low & b.low, a.high & b.high}; }
    friend auto operator<(Two a, Two b) { return Two<WholeOf<Number>>{a.low < b.low, a.high < b.high}; }
    friend auto operator<=(Two a, Two b) { return Two<WholeOf<Number>>{a.low <= b.low, a.high <= b.high}; }
    friend auto operator==(Two a, Two b) { return Two<WholeOf<Number>>{a.low == b.low, a.high == b.high}; }
    friend Two fused(Two a, Two b, Two c) { return {fused(a.low, b.low, c.low), fused(a.high, b.high, c.high)}; }
    friend Two root(Two a) { return {root(a.low), root(a.high)}; }
    friend Two size(Two a) { return {size(a.low), size(a.high)}; }
    friend Two greater(Two a, Two b) { return {greater(a.low, b.low), greater(a.high, b.high)}; }
    friend Two select(Two<WholeOf<Number>> mask, Two yes, Two no) {
        return {ISA::select(mask.low, yes.low, no.low), ISA::select(mask.high, yes.high, no.high)};
    }
};

// c - a b, rounded once.
template <class V>
V less_product(V a, V b, V c) {
    return fused(-a, b, c);
}

// The vector at a place of an array of vectors.
template <class V, class Number>
V get(const Number* array, int64_t place) {
    return V::load(array + place * V::LANES);
}

template <class V, class Number>
void put(Number* array, int64_t place, V value) {
    value.store(array + place * V::LANES);
}

// --- Rows of numbers become lanes ---------------------------------------------------------------------------

typedef double Four __attribute__((vector_size(32)));

// Entries at to at + 4 of four rows, times a factor for each row, into four lanes: entry e goes to out[e * lanes].
template <class Number>
void put_turned(const double* const (&row)[4], const double (&factor)[4], int64_t at, Number* out, int64_t lanes) {
    typedef Number Few __attribute__((vector_size(4 * sizeof(Number))));
    Four x[4], half[4], turned[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        std::memcpy(&x[i], row[i] + at, sizeof x[i]);
        x[i] = x[i] * factor[i];
    }
    // (g++ 11 has no __builtin_shufflevector; these become the same instructions.)
    auto even = [](Four a, Four b) { return Four{a[0], b[0], a[2], b[2]}; };
    auto odd = [](Four a, Four b) { return Four{a[1], b[1], a[3], b[3]}; };
    auto lower = [](Four a, Four b) { return Four{a[0], a[1], b[0], b[1]}; };
    auto upper = [](Four a, Four b) { return Four{a[2], a[3], b[2], b[3]}; };
    half[0] = even(x[0], x[1]);
    half[1] = odd(x[0], x[1]);
    half[2] = even(x[2], x[3]);
    half[3] = odd(x[2], x[3]);
    turned[0] = lower(half[0], half[2]);
    turned[1] = lower(half[1], half[3]);
    turned[2] = upper(half[0], half[2]);
    turned[3] = upper(half[1], half[3]);
#pragma GCC unroll 4
    for (int e = 0; e < 4; e++) {
        const Few few = __builtin_convertvector(turned[e], Few);
        std::memcpy(out + e * lanes, &few, sizeof few);
    }
}

// The largest entry of a row, or a number that anything may be divided by.
inline double largest(const double* row, int64_t width) {
    constexpr int64_t LANES = Doubles::LANES;
    Doubles top = Doubles::spread(1e-300);
    int64_t k = 0;
    for (; k + LANES <= width; k += LANES) top = greater(size(Doubles::load(row + k)), top);
    double lanes[LANES];
    top.store(lanes);
    for (; k < width; k++) lanes[0] = std::max(lanes[0], std::fabs(row[k]));
    return *std::max_element(lanes, lanes + LANES);
}

// Rows first, first + 1, ... of [systems, width] into the lanes, each with its multiple of the shared row (if there
// is one) and divided by its largest entry, which goes to `sizes`. Lanes beyond the last row repeat it.
template <class Number>
void fill(const double* rows, int64_t systems, int64_t width, int64_t first, const double* scale,
          const double* shared, Number* out, double* sizes, double* room) {
    constexpr int lanes = Vector<Number>::LANES;
    for (int block = 0; block < lanes; block += 4) {
        const double* row[4];
        double inverse[4];
        for (int i = 0; i < 4; i++) {
            const int64_t system = std::min(first + block + i, systems - 1);
            row[i] = rows + system * width;
            if (scale) {
                double* own = room + i * width;
                for (int64_t k = 0; k < width; k++) own[k] = row[i][k] + scale[system] * shared[k];
                row[i] = own;
            }
            sizes[block + i] = largest(row[i], width);
            inverse[i] = 1.0 / sizes[block + i];
        }
        int64_t at = 0;
        for (; at + 4 <= width; at += 4) put_turned(row, inverse, at, out + at * lanes + block, lanes);
        for (; at < width; at++)
            for (int i = 0; i < 4; i++) out[at * lanes + block + i] = Number(row[i][at] * inverse[i]);
    }
}

// --- Reflections: symmetric matrices become tridiagonal -------------------------------------------------------

// What is needed for the matrices of one batch, [.] vectors each.
template <class Number>
struct Tridiagonal {
    int64_t n;
    Number *matrix, *factor;             // [n (n + 1) / 2], [n]
    Number *vector, *diagonal, *beside;  // [n]
    Number *v, *w, *product;             // [n]
};

// Rows of a matrix that are worked on at once: what the registers hold. Every number is a chain of the same
// products, in the same order, whatever this is.
constexpr int ROWS = PARTS == 1 ? 4 : 2;

// Of so many rows from i on, the first of which begins at entry `at`: see update_and_multiply. u_j is u[j].
template <int rows, class Number>
void update_rows(const Tridiagonal<Number>& own, const Number* u, int64_t i, int64_t at) {
    using V = Vector<Number>;
    V vi[rows], wi[rows], ui[rows], sum[rows];
    Number* row[rows];  // row[r] + j: entry j of row i + r
    for (int r = 0; r < rows; r++) {
        vi[r] = get<V>(own.v, i + r);
        wi[r] = get<V>(own.w, i + r);
        ui[r] = get<V>(u, i + r);
        sum[r] = get<V>(own.product, i + r);
        row[r] = own.matrix + (at - i) * V::LANES;
        at += own.n - i - r - 1;
    }
    auto update = [&](int r, int64_t j, V vj, V wj) {
        const V x = less_product(wi[r], vj, less_product(vi[r], wj, get<V>(row[r], j)));
        put(row[r], j, x);
        return x;
    };
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int c = r; c < rows; c++) {
            const V x = update(r, i + c, vi[c], wi[c]);
            sum[r] = fused(x, ui[c], sum[r]);
            if (c > r) sum[c] = fused(x, ui[r], sum[c]);
        }
    for (int64_t j = i + rows; j < own.n; j++) {
        const V vj = get<V>(own.v, j), wj = get<V>(own.w, j), uj = get<V>(u, j);
        V along = get<V>(own.product, j);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            const V x = update(r, j, vj, wj);
            sum[r] = fused(x, uj, sum[r]);
            along = fused(x, ui[r], along);
        }
        put(own.product, j, along);
    }
    for (int r = 0; r < rows; r++) put(own.product, i + r, sum[r]);
}

// Subtract v w' + w v' from rows k and on, and add to `product` what is left times the vector u, which lies in the
// matrix from entry `first` on. `at` is where row k begins. In one pass: each entry is read and written once.
template <class Number>
void update_and_multiply(const Tridiagonal<Number>& own, int64_t k, int64_t first, int64_t at) {
    const Number* u = own.matrix + (first - k) * Vector<Number>::LANES;
    const int64_t n = own.n;
    int64_t i = k;
    for (; i + ROWS <= n; i += ROWS) {
        update_rows<ROWS>(own, u, i, at);
        for (int r = 0; r < ROWS; r++) at += n - i - r;
    }
    for (; i < n; at += n - i++) update_rows<1>(own, u, i, at);
}

// vector -= factor u u' vector, u having its first entry at k of the vector.
template <class Number>
void reflect(const Number* u, Vector<Number> factor, Number* vector, int64_t k, int64_t n) {
    using V = Vector<Number>;
    V along{};
    for (int64_t j = k; j < n; j++) along = fused(get<V>(u, j - k), get<V>(vector, j), along);
    along = along * factor;
    for (int64_t j = k; j < n; j++) put(vector, j, less_product(along, get<V>(u, j - k), get<V>(vector, j)));
}

// Reflections I - factor_k u u' that make the matrix tridiagonal; the vector is reflected as well. u is left in
// row k of the matrix, beside its diagonal. Squares below `smallest` count as zero.
template <class Number>
void tridiagonalize(const Tridiagonal<Number>& own, double smallest, Work& work) {
    using V = Vector<Number>;
    const int64_t n = own.n;
    const V zero{}, one = V::spread(1), half = V::spread(0.5), tiny = V::spread(Number(smallest));
    for (int64_t j = 0; j < n; j++) {
        put(own.v, j, zero);
        put(own.w, j, zero);
        put(own.beside, j, zero);
    }
    int64_t at = 0;
    for (int64_t k = 0; k < n && !work.stopped(); at += n - k++) {
        // The rows from k on still lack the last reflection: - v w' - w v'.
        Number* row = own.matrix + at * V::LANES;
        const V vk = get<V>(own.v, k), wk = get<V>(own.w, k);
        V rest = zero;
        for (int64_t j = k; j < n; j++) {
            V x = less_product(vk, get<V>(own.w, j), get<V>(row, j - k));
            x = less_product(wk, get<V>(own.v, j), x);
            put(row, j - k, x);
            if (j > k + 1) rest = fused(x, x, rest);
        }
        put(own.diagonal, k, get<V>(row, 0));
        if (k + 1 == n) return;
        Number* u = row + V::LANES;
        const V first = get<V>(u, 0), length = root(fused(first, first, rest));
        const V toward = select(first < zero, -length, length);
        const auto reflected = tiny < rest;
        const V factor = select(reflected, one / (length * (length + size(first))), zero);
        put(own.beside, k, select(reflected, -toward, first));
        put(own.factor, k, factor);
        put(u, 0, first + toward);
        reflect(u, factor, own.vector, k + 1, n);
        for (int64_t j = k + 1; j < n; j++) put(own.product, j, zero);
        update_and_multiply(own, k + 1, at + 1, at + n - k);
        V along = zero;
        for (int64_t j = k + 1; j < n; j++) along = fused(get<V>(u, j - k - 1), get<V>(own.product, j), along);
        along = along * factor * factor * half;
        for (int64_t j = k + 1; j < n; j++) {
            const V x = get<V>(u, j - k - 1);
            put(own.v, j, x);
            put(own.w, j, less_product(along, x, get<V>(own.product, j) * factor));
        }
    }
}

// Undo to the vector what `tridiagonalize` did to it.
template <class Number>
void reflect_back(const Tridiagonal<Number>& own, Number* vector) {
    using V = Vector<Number>;
    int64_t at = own.n * (own.n + 1) / 2 - 1;
    for (int64_t k = own.n - 2; k >= 0; k--) {
        at -= own.n - k;
        reflect(own.matrix + (at + 1) * V::LANES, get<V>(own.factor, k), vector, k + 1, own.n);
    }
}

// --- Rotations: tridiagonal matrices become diagonal ----------------------------------------------------------

struct Range {
    int64_t begin, end;
};

// Two batches of tridiagonal matrices, and the rotations that they were turned by.
template <class Number>
struct Rotated {
    int64_t n, most_sweeps;
    Number *diagonal, *beside, *vector;  // [n]
    Number* rotations;                   // cosines and sines, [2 n most_sweeps]
    Range* ranges;                       // [most_sweeps]
};

// Rotate until nothing is left beside the diagonal; the number of sweeps, which are noted. `failed` is one in
// the lanes where as many sweeps as there is room for did not suffice.
//
// In every lane the first block that is not diagonal yet, rows `low` to `high`, is swept from its end to its
// beginning with Wilkinson's shift; where a lane has nothing to do it turns by nothing.
template <class Number>
int64_t diagonalize(const Rotated<Number>& own, double rounding, double smallest, Number* failed, Work& work) {
    using V = Two<Number>;
    const int64_t n = own.n;
    const V zero{}, one = V::spread(1), epsilon = V::spread(Number(rounding)), tiny = V::spread(Number(smallest));
    const V beyond = V::spread(Number(n));
    int64_t sweeps = 0, used = 0, begin = 0;
    put(failed, 0, zero);
    while (true) {
        V low = beyond, high = zero, d_low = zero, d_next = zero, e_low = zero, d_high = zero;
        V was_small = zero;  // 0: nothing beside the row after this one
        V above = get<V>(own.diagonal, n - 1);
        for (int64_t i = n - 2; i >= begin; i--) {
            const V here = get<V>(own.diagonal, i), e = get<V>(own.beside, i);
            // Small beside its neighbors, or beside the matrix, whose largest entry was one.
            const auto big = (epsilon * (size(here) + size(above)) < size(e)) & (epsilon < size(e) + size(e));
            put(own.beside, i, select(big, e, zero));  // so that it stays small, whatever follows
            const auto ends = big & (was_small == zero);
            high = select(ends, V::spread(Number(i + 1)), high);
            d_high = select(ends, above, d_high);
            low = select(big, V::spread(Number(i)), low);
            d_low = select(big, here, d_low);
            d_next = select(big, above, d_next);
            e_low = select(big, e, e_low);
            was_small = select(big, one, zero);
            above = here;
        }
        begin = n;
        int64_t end = 0;
        Number lows[V::LANES], highs[V::LANES];
        low.store(lows);
        high.store(highs);
        for (int lane = 0; lane < V::LANES; lane++) {
            begin = std::min(begin, int64_t(lows[lane]));
            end = std::max(end, int64_t(highs[lane]));
        }
        if (begin >= n || work.stopped()) return sweeps;
        if (sweeps == own.most_sweeps) {
            put(failed, 0, select(low < beyond, one, zero));
            return sweeps;
        }
        own.ranges[sweeps++] = {begin, end};
        const auto idle = low == beyond;
        const V bend = (d_next - d_low) / select(idle, one, e_low + e_low);
        const V turn = root(fused(bend, bend, one));
        V g = d_high - d_low + e_low / (bend + select(bend < zero, -turn, turn));
        V s = one, c = one, p = zero;
        V d_above = get<V>(own.diagonal, end), z_above = get<V>(own.vector, end);
        for (int64_t i = end - 1; i >= begin; i--) {
            const V place = V::spread(Number(i)), after = V::spread(Number(i + 1));
            const auto active = (low <= place) & (place < high), last = low == place;
            const V d = get<V>(own.diagonal, i), e = get<V>(own.beside, i);
            const V f = s * e, h = c * e, x = d_above - p;
            // As much as possible is ready before the root and the quotient, which take longest.
            const V gh = g * h, product = fused(d - x, f, gh + gh), twice = h + h;
            const V square = fused(f, f, g * g);
            const auto turns = active & (tiny < square);
            const V r = root(square);
            const V inverse = r * (one / square);  // the quotient need not wait for the root
            const V s_new = select(turns, f * inverse, zero), c_new = select(turns, g * inverse, one);
            const V t = select(turns, product * inverse, twice);
            const V p_new = s_new * t, g_new = fused(c_new, t, -h);
            put(own.diagonal, i + 1, select(active, x + p_new, d_above));
            const V kept = select(after < high, r, zero);
            put(own.beside, i + 1, select(active, kept, get<V>(own.beside, i + 1)));
            d_above = select(last, d - p_new, d);
            put(own.beside, i, select(last, g_new, e));
            put(own.rotations, 2 * used, c_new);
            put(own.rotations, 2 * used++ + 1, s_new);
            const V z = get<V>(own.vector, i);
            put(own.vector, i + 1, fused(s_new, z, c_new * z_above));
            z_above = less_product(s_new, z_above, c_new * z);
            s = select(active, s_new, s);
            c = select(active, c_new, c);
            p = select(active, p_new, p);
            g = select(active, g_new, g);
        }
        put(own.diagonal, begin, d_above);
        put(own.vector, begin, z_above);
    }
}

// Undo to the vector what `diagonalize` did to it.
template <class Number>
void rotate_back(const Rotated<Number>& own, int64_t sweeps) {
    using V = Two<Number>;
    int64_t used = 0;
    for (int64_t sweep = 0; sweep < sweeps; sweep++) used += own.ranges[sweep].end - own.ranges[sweep].begin;
    for (int64_t sweep = sweeps - 1; sweep >= 0; sweep--) {
        const auto [begin, end] = own.ranges[sweep];
        V z = get<V>(own.vector, begin);
        for (int64_t i = begin; i < end; i++) {
            used--;
            const V c = get<V>(own.rotations, 2 * used), s = get<V>(own.rotations, 2 * used + 1);
            const V above = get<V>(own.vector, i + 1);
            put(own.vector, i, fused(c, z, s * above));
            z = less_product(s, z, c * above);
        }
        put(own.vector, end, z);
    }
}

// --- The filter ------------------------------------------------------------------------------------------------

// What two batches are relative to: all numbers of a system are divided by its largest.
template <class Number>
struct Relative {
    static constexpr int lanes = 2 * Vector<Number>::LANES;
    double unit[lanes], matrix[lanes], vector[lanes];
    Number size[lanes], alpha[lanes], ridge[lanes], normal[lanes], norm[lanes], gain[lanes], unfinished[lanes];
};

// Multiply by f of the eigenvalues, relative to the largest f, which becomes the `gain`.
template <class Number>
void filter(const Rotated<Number>& own, Relative<Number>& relative) {
    using V = Two<Number>;
    const int64_t n = own.n;
    const V zero{}, one = V::spread(1), scale = V::load(relative.size), shift = V::load(relative.alpha);
    const V ridge = V::load(relative.ridge), normal = V::load(relative.normal);
    V top = zero;
    for (int64_t i = 0; i < n; i++) {
        V value = get<V>(own.diagonal, i) * scale;
        value = select(value < zero, zero, value) + shift;
        top = greater(top, value);
        put(own.diagonal, i, value);
    }
    // Directions are left out in which v is lost in the rounding of the largest. In float32 too: there the
    // ridge is above what rounding leaves.
    const V least_known = V::spread(Number(double(n) * EPSILON)) * top;
    V most = zero;
    for (int64_t i = 0; i < n; i++) {
        const V value = get<V>(own.diagonal, i);
        const auto known = (least_known < value) & (normal < value);
        // No square, which might be too large or too small a number.
        const V factor = select(known, one / fused(ridge, ridge / value, value), zero);
        most = greater(most, factor);
        put(own.diagonal, i, factor);
    }
    const V inverse = select(zero < most, one / most, zero);
    for (int64_t i = 0; i < n; i++) put(own.vector, i, get<V>(own.vector, i) * (get<V>(own.diagonal, i) * inverse));
    put(relative.gain, 0, most);
}

// Norms of symmetric matrices, or up to sqrt(2) times as much, from their upper triangles.
template <class Number>
Vector<Number> bound_norms(const Number* matrix, int64_t entries) {
    using V = Vector<Number>;
    V sums[4] = {};  // that do not wait for each other
    for (int64_t entry = 0; entry < entries; entry++) {
        const V x = get<V>(matrix, entry);
        sums[entry % 4] = fused(x, x, sums[entry % 4]);
    }
    const V total = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    return root(total + total);
}

// --- Whole calls -----------------------------------------------------------------------------------------------

template <class Number>
void solve_filtered(const Systems& all, const Filter& by, Work& work) {
    constexpr int lanes = Vector<Number>::LANES;
    constexpr double epsilon = std::numeric_limits<Number>::epsilon();
    // Squares below this are rounded coarsely or to zero. Matrices are scaled to a largest entry of one before
    // anything is squared, so what is dropped on its account is far below rounding.
    constexpr double tiny = std::numeric_limits<Number>::min() / epsilon / epsilon;
    const int64_t n = all.n, entries = n * (n + 1) / 2;
    Room<Number> matrices(2 * entries * lanes), small(13 * n * lanes);
    Number* at = small.data();
    auto take = [&](int64_t vectors) { return std::exchange(at, at + vectors * lanes); };
    Number *factors = take(2 * n), *vector = take(n), *own_diagonal = take(n), *own_beside = take(n);
    Number *v = take(n), *w = take(n), *product = take(n);
    Rotated<Number> both{n, by.most_sweeps, nullptr, nullptr, nullptr, nullptr, nullptr};
    Room<Number> pairs(6 * n * lanes);
    both.diagonal = pairs.data();
    both.beside = both.diagonal + 2 * n * lanes;
    both.vector = both.beside + 2 * n * lanes;
    Room<Number> rotations(4 * n * by.most_sweeps * lanes, UNTOUCHED);
    Room<Range> ranges(by.most_sweeps);
    both.rotations = rotations.data();
    both.ranges = ranges.data();
    Room<double> rows(4 * std::max(entries, n));
    Relative<Number> relative;
    for (int64_t piece; (piece = work.take()) >= 0;) {
        const int64_t start = piece * 2 * lanes;
        Tridiagonal<Number> half[2];
        for (int h = 0; h < 2; h++) {
            half[h] = {n,
                       matrices.data() + h * entries * lanes,
                       factors + h * n * lanes,
                       vector,
                       own_diagonal,
                       own_beside,
                       v,
                       w,
                       product};
            fill(all.packed, all.systems, entries, start + h * lanes, all.scale, all.shared, half[h].matrix,
                 relative.matrix + h * lanes, rows.data());
            bound_norms<Number>(half[h].matrix, entries).store(relative.norm + h * lanes);
        }
        bool solvable = false;
        for (int lane = 0; lane < 2 * lanes; lane++) {
            const int64_t system = std::min(start + lane, all.systems - 1);
            const double size = relative.matrix[lane], alpha = all.alpha[system];
            // Everything relative to the largest, so that none is too large a number.
            const double unit = relative.unit[lane] = std::max({size, alpha, by.ridge});
            relative.size[lane] = Number(size / unit);
            relative.alpha[lane] = Number(alpha / unit);
            relative.ridge[lane] = Number(by.ridge / unit);
            relative.normal[lane] = Number(std::max(tiny * epsilon * epsilon, NORMAL / unit));
            all.failed[system] = double(relative.norm[lane]) * size > by.most * by.ridge ||
                                 std::max(size, alpha) < by.least * by.ridge;
            solvable |= !all.failed[system];
        }
        if (!solvable) continue;
        for (int h = 0; h < 2; h++) {
            fill<Number>(all.b, all.systems, n, start + h * lanes, nullptr, nullptr, vector,
                         relative.vector + h * lanes, rows.data());
            tridiagonalize(half[h], tiny, work);
            for (int64_t k = 0; k < n; k++) {
                put(both.diagonal, 2 * k + h, get<Vector<Number>>(own_diagonal, k));
                put(both.beside, 2 * k + h, get<Vector<Number>>(own_beside, k));
                put(both.vector, 2 * k + h, get<Vector<Number>>(vector, k));
            }
        }
        const int64_t sweeps = diagonalize(both, epsilon, tiny, relative.unfinished, work);
        filter(both, relative);
        rotate_back(both, sweeps);
        for (int h = 0; h < 2; h++) {
            for (int64_t k = 0; k < n; k++) put(vector, k, get<Vector<Number>>(both.vector, 2 * k + h));
            reflect_back(half[h], vector);
            for (int64_t lane = 0; lane < std::min<int64_t>(lanes, all.systems - start - h * lanes); lane++) {
                const int64_t system = start + h * lanes + lane, place = h * lanes + lane;
                all.failed[system] |= relative.unfinished[place] > 0;
                const double gain = double(relative.gain[place]) / relative.unit[place];
                for (int64_t k = 0; k < n; k++)
                    all.theta[system * n + k] = double(vector[k * lanes + lane]) * relative.vector[place] * gain;
            }
        }
    }
}

// Rows of the factor that are subtracted at once, and rows that they are subtracted from. As above, no number
// depends on it.
constexpr int PANEL = 4, BELOW = PARTS == 1 ? 2 : 1;

// Subtract the products of a panel's rows u[p] from rows i on, for all columns j >= i + r; u[p] and row[r] + j:
// entry j.
template <int rows>
void subtract_products(int64_t n, const double* const (&u)[PANEL], double* const (&row)[rows], int64_t i) {
    using V = Vector<double>;
    V factor[rows][PANEL];
    for (int r = 0; r < rows; r++)
        for (int p = 0; p < PANEL; p++) factor[r][p] = -get<V>(u[p], i + r);
    auto subtract = [&](int r, int64_t j) {
        V x = get<V>(row[r], j);
#pragma GCC unroll 4
        for (int p = 0; p < PANEL; p++) x = fused(factor[r][p], get<V>(u[p], j), x);
        put(row[r], j, x);
    };
    for (int r = 0; r < rows; r++)
        for (int c = r; c < rows; c++) subtract(r, i + c);
    for (int64_t j = i + rows; j < n; j++)
#pragma GCC unroll 2
        for (int r = 0; r < rows; r++) subtract(r, j);
}

// Factors U'U = A in place of A, U's diagonal as reciprocals, and the solution in place of the vector; 1 in the
// lanes where a pivot was lost in rounding.
Vector<double> solve_by_cholesky(int64_t n, double* matrix, double* vector, Work& work) {
    using V = Vector<double>;
    // row_of(k)[j]: entry j of row k.
    auto row_of = [&](int64_t k) { return matrix + (k * n - k * (k - 1) / 2 - k) * V::LANES; };
    const V zero{}, one = V::spread(1.0);
    V top = zero;
    for (int64_t k = 0; k < n; k++) top = greater(top, get<V>(row_of(k), k));
    const V lost = top * V::spread(double(n) * EPSILON);
    V failed = zero;
    for (int64_t first = 0; first < n && !work.stopped(); first += PANEL) {
        const double* u[PANEL];
        for (int64_t k = first; k < std::min(first + PANEL, n); k++) {
            double* row = row_of(k);
            u[k - first] = row;
            // What the panel's rows above take from this one.
            for (int64_t above = 0; above < k - first; above++) {
                const V factor = -get<V>(u[above], k);
                for (int64_t j = k; j < n; j++) put(row, j, fused(factor, get<V>(u[above], j), get<V>(row, j)));
            }
            const V pivot = get<V>(row, k);
            const auto good = lost < pivot;
            failed = select(good, failed, one);
            const V inverse = one / root(select(good, pivot, one)), solved = get<V>(vector, k) * inverse;
            put(row, k, inverse);
            put(vector, k, solved);
            for (int64_t j = k + 1; j < n; j++) {
                const V x = get<V>(row, j) * inverse;
                put(row, j, x);
                put(vector, j, less_product(solved, x, get<V>(vector, j)));
            }
        }
        int64_t i = first + PANEL;
        for (; i + BELOW <= n; i += BELOW) {
            double* rows[BELOW];
            for (int r = 0; r < BELOW; r++) rows[r] = row_of(i + r);
            subtract_products<BELOW>(n, u, rows, i);
        }
        for (; i < n; i++) subtract_products<1>(n, u, {row_of(i)}, i);
    }
    for (int64_t k = n - 1; k >= 0; k--) {
        const double* row = row_of(k);
        V rest = get<V>(vector, k);
        for (int64_t j = k + 1; j < n; j++) rest = less_product(get<V>(row, j), get<V>(vector, j), rest);
        put(vector, k, rest * get<V>(row, k));
    }
    return failed;
}

void solve_positive(const Systems& all, Work& work) {
    constexpr int lanes = Vector<double>::LANES;
    const int64_t n = all.n, entries = n * (n + 1) / 2;
    Room<double> matrix(entries * lanes), vector(n * lanes), rows(4 * std::max(entries, n));
    double of_matrix[lanes], of_vector[lanes], lost[lanes];
    for (int64_t piece; (piece = work.take()) >= 0;) {
        const int64_t start = piece * lanes;
        fill(all.packed, all.systems, entries, start, all.scale, all.shared, matrix.data(), of_matrix, rows.data());
        fill<double>(all.b, all.systems, n, start, nullptr, nullptr, vector.data(), of_vector, rows.data());
        for (int64_t k = 0, at = 0; k < n; at += n - k++)
            for (int lane = 0; lane < lanes; lane++)
                matrix[at * lanes + lane] += all.alpha[std::min(start + lane, all.systems - 1)] / of_matrix[lane];
        solve_by_cholesky(n, matrix.data(), vector.data(), work).store(lost);
        for (int64_t lane = 0; lane < std::min<int64_t>(lanes, all.systems - start); lane++) {
            all.failed[start + lane] = lost[lane] > 0;
            for (int64_t k = 0; k < n; k++)
                all.theta[(start + lane) * n + k] = vector[k * lanes + lane] * of_vector[lane] / of_matrix[lane];
        }
    }
}

}  // namespace

extern const SolveKernels solves{solve_filtered<float>, solve_filtered<double>, solve_positive};

}  // namespace ISA
