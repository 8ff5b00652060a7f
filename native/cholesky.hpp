// Cholesky factors in float32, of one user's system. Matrices are upper triangles [width, width], width being whole
// vectors.
#pragma once

#include <limits>

#include "gram.hpp"

namespace ISA {

// A = U'U, in place, zeros below the diagonal of U and reciprocals on it. How much the worst pivot lost: its place
// on the diagonal of A over the pivot; infinity if one is not positive.
inline float cholesky(float* A, int64_t width) {
    float worst = 0.0f;
    for (int64_t at = 0; at < width; at += PANEL) {
        const int64_t first = at / 16 * 16;
        float* panel = A + at * width;
        float before[PANEL];
        for (int p = 0; p < PANEL; p++) before[p] = panel[p * width + at + p];
        add_panel<-1>(Strided<float>{A + at, width, 1}, A, at, panel, first, width);
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
            for (int p = 0; p < PANEL; p++)
                sums[p] = fused(Floats::load(U + (at + p) * width + j), solved, sums[p]);
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
