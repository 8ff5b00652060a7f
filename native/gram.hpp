// Sums of x x' over rows x of floating-point numbers, in tiles: up to 64 rows lie together and stay in the fastest
// cache; a block of a few rows and vectors of the result is held in registers while the tile is read once. A number
// of the result is the sum over the rows of a tile, in their order, added to what was there: it does not depend on
// the blocks. Matrices are upper triangles [width, width], width being whole vectors.
#pragma once

#include "vectors.hpp"

namespace ISA {

constexpr int PANEL = 8;  // rows of a matrix that are computed together
#if defined(__AVX512F__)
constexpr int BLOCK_ROWS = 8, BLOCK_VECTORS = 2;  // of which so many are held in registers
#else
constexpr int BLOCK_ROWS = 4, BLOCK_VECTORS = 1;
#endif

// A factor that stands at left[k * down + p * across].
template <class Number>
struct Strided {
    const Number* left;
    int64_t down, across;
};

// out[p, q] += sign * (sum over k of left[k, p] right[k, q]), p < BLOCK_ROWS, q in the vectors; k in order.
template <int vectors, int sign, class Number>
inline void add_block(Strided<Number> x, const Number* right, int64_t rows, Number* out, int64_t width) {
    using Numbers = Vector<Number>;
    Numbers sums[vectors][BLOCK_ROWS] = {};
    for (int64_t k = 0; k < rows; k++) {
        Numbers y[vectors];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) y[v] = Numbers::load(right + k * width + v * Numbers::LANES);
#pragma GCC unroll 8
        for (int p = 0; p < BLOCK_ROWS; p++) {
            const Numbers factor = Numbers::spread(x.left[k * x.down + p * x.across]);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) sums[v][p] = fused(factor, y[v], sums[v][p]);
        }
    }
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
#pragma GCC unroll 8
        for (int p = 0; p < BLOCK_ROWS; p++) {
            Number* here = out + p * width + v * Numbers::LANES;
            const Numbers before = Numbers::load(here);
            (sign > 0 ? before + sums[v][p] : before - sums[v][p]).store(here);
        }
}

// The same for a panel of PANEL rows, columns first : width.
template <int sign, class Number>
inline void add_panel(Strided<Number> x, const Number* right, int64_t rows, Number* out, int64_t first,
                      int64_t width) {
    constexpr int LANES = Vector<Number>::LANES;
    for (int p = 0; p < PANEL; p += BLOCK_ROWS) {
        const Strided<Number> some{x.left + p * x.across, x.down, x.across};
        int64_t j = first;
        for (; j + BLOCK_VECTORS * LANES <= width; j += BLOCK_VECTORS * LANES)
            add_block<BLOCK_VECTORS, sign>(some, right + j, rows, out + p * width + j, width);
        for (; j < width; j += LANES) add_block<1, sign>(some, right + j, rows, out + p * width + j, width);
    }
}

// The upper triangle of total [width, width] += sum of left_k right_k' over the rows k of two tiles [rows, width].
template <class Number>
inline void add_gram(const Number* left, const Number* right, int64_t rows, Number* total, int64_t width) {
    constexpr int LANES = Vector<Number>::LANES;
    for (int64_t at = 0; at < width; at += PANEL)
        add_panel<1>(Strided<Number>{left + at, width, 1}, right, rows, total + at * width, at / LANES * LANES,
                     width);
}

}  // namespace ISA
