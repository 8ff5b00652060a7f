// Gram matrices and Cholesky factors in float32, of one user's system. Matrices are upper triangles [width, width],
// width being whole vectors.
#pragma once

#include <cmath>
#include <limits>

#include "vectors.hpp"

namespace ISA {

constexpr int PANEL = 8;  // rows of a matrix that are computed together
#if defined(__AVX512F__)
constexpr int BLOCK_ROWS = 8, BLOCK_VECTORS = 2;  // of which so many are held in registers
#else
constexpr int BLOCK_ROWS = 4, BLOCK_VECTORS = 1;
#endif

// A factor that stands at left[k * down + p * across].
struct Strided {
    const float* left;
    int64_t down, across;
};

// out[p, q] += sign * (sum over k of left[k, p] right[k, q]), p < BLOCK_ROWS, q in the vectors; k in order.
template <int vectors, int sign>
inline void add_block(Strided x, const float* right, int64_t rows, float* out, int64_t width) {
    Floats sums[vectors][BLOCK_ROWS] = {};
    for (int64_t k = 0; k < rows; k++) {
        Floats y[vectors];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) y[v] = Floats::load(right + k * width + v * 16);
#pragma GCC unroll 8
        for (int p = 0; p < BLOCK_ROWS; p++) {
            const Floats factor = Floats::spread(x.left[k * x.down + p * x.across]);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) sums[v][p] = fused(factor, y[v], sums[v][p]);
        }
    }
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
#pragma GCC unroll 8
        for (int p = 0; p < BLOCK_ROWS; p++) {
            float* here = out + p * width + v * 16;
            const Floats before = Floats::load(here);
            (sign > 0 ? before + sums[v][p] : before - sums[v][p]).store(here);
        }
}

// The same for a panel of PANEL rows, columns first : width.
template <int sign>
inline void add_panel(Strided x, const float* right, int64_t rows, float* out, int64_t first, int64_t width) {
    for (int p = 0; p < PANEL; p += BLOCK_ROWS) {
        const Strided some{x.left + p * x.across, x.down, x.across};
        int64_t j = first;
        for (; j + BLOCK_VECTORS * 16 <= width; j += BLOCK_VECTORS * 16)
            add_block<BLOCK_VECTORS, sign>(some, right + j, rows, out + p * width + j, width);
        for (; j < width; j += 16) add_block<1, sign>(some, right + j, rows, out + p * width + j, width);
    }
}

// The upper triangle of total [width, width] += sum of x x' over the rows x of a tile [rows, width].
inline void add_gram(const float* tile, int64_t rows, float* total, int64_t width) {
    for (int64_t at = 0; at < width; at += PANEL)
        add_panel<1>({tile + at, width, 1}, tile, rows, total + at * width, at / 16 * 16, width);
}

// A = U'U, in place, zeros below the diagonal of U and reciprocals on it. How much the worst pivot lost: its place on
// the diagonal of A over the pivot; infinity if one is not positive.
inline float cholesky(float* A, int64_t width) {
    float worst = 0.0f;
    for (int64_t at = 0; at < width; at += PANEL) {
        const int64_t first = at / 16 * 16;
        float* panel = A + at * width;
        float before[PANEL];
        for (int p = 0; p < PANEL; p++) before[p] = panel[p * width + at + p];
        add_panel<-1>({A + at, width, 1}, A, at, panel, first, width);
        for (int p = 0; p < PANEL; p++) {
            float* row = panel + p * width;
            const float pivot = row[at + p];
            if (!(pivot > 0.0f)) return std::numeric_limits<float>::infinity();
            const float lost = before[p] / pivot;
            worst = lost > worst ? lost : worst;
            const float inverse = 1.0f / __builtin_sqrtf(pivot);
            const Floats scale = Floats::spread(inverse);
            for (int64_t j = first; j < width; j += 16) (Floats::load(row + j) * scale).store(row + j);
            for (int q = p + 1; q < PANEL; q++) {
                const Floats factor = -Floats::spread(row[at + q]);
                float* below = panel + q * width;
                for (int64_t j = first; j < width; j += 16)
                    fused(factor, Floats::load(row + j), Floats::load(below + j)).store(below + j);
            }
            for (int64_t j = first; j < at + p; j++) row[j] = 0.0f;
            row[at + p] = inverse;
        }
    }
    return worst;
}

// x = A^-1 b with the factor that `cholesky` left; b is lost.
inline void substitute(const float* U, float* b, float* x, int64_t width) {
    for (int64_t at = 0; at < width; at += PANEL) {
        for (int p = 0; p < PANEL; p++) {
            const float* row = U + (at + p) * width + at;
            x[at + p] = b[at + p] * row[p];
            for (int q = p + 1; q < PANEL; q++) b[at + q] = b[at + q] - row[q] * x[at + p];
        }
        for (int64_t j = at / 16 * 16; j < width; j += 16) {  // b of solved rows may change: it is done with
            Floats rest = Floats::load(b + j);
            for (int p = 0; p < PANEL; p++)
                rest = fused(-Floats::spread(x[at + p]), Floats::load(U + (at + p) * width + j), rest);
            rest.store(b + j);
        }
    }
    for (int64_t at = width - PANEL; at >= 0; at -= PANEL) {
        float y[PANEL];
        for (int p = 0; p < PANEL; p++) {
            y[p] = x[at + p];
            x[at + p] = 0.0f;
        }
        Floats sums[PANEL] = {};
        for (int64_t j = at / 16 * 16; j < width; j += 16) {
            Floats solved = Floats::load(x + j);
            if (j < at) {  // of this vector the first half is not solved yet
                float lanes[16];
                solved.store(lanes);
                for (int k = 0; k < 8; k++) lanes[k] = 0.0f;
                solved = Floats::load(lanes);
            }
            for (int p = 0; p < PANEL; p++) sums[p] = fused(Floats::load(U + (at + p) * width + j), solved, sums[p]);
        }
        float known[PANEL];
        totals(sums, known);
        for (int p = PANEL - 1; p >= 0; p--) {
            const float* row = U + (at + p) * width + at;
            float rest = y[p] - known[p];
            for (int q = p + 1; q < PANEL; q++) rest = rest - row[q] * x[at + q];
            x[at + p] = rest * row[p];
        }
    }
}

}  // namespace ISA
