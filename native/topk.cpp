// Scores and the columns with the highest ones.
//
//     score    s_rc = ((v_r1 x_c1 + v_r2 x_c2) + ...) + v_rd x_cd, each product fused with its sum, in this order
//     top      the k columns of each row with the highest scores, the best first, equal ones in order of columns
//
// A score is one chain of fused products, whatever the rows and columns around it: so a user's recommendations have
// the same bits whether one user is asked for or many. No bound rests on this file: items are released, and a
// user's vector is that user's own.
#include "topk.hpp"

#include <algorithm>
#include <limits>

#include "memory.hpp"
#include "vectors.hpp"

namespace ISA {
namespace {

constexpr int64_t AT_ONCE = 4 * Floats::LANES;
constexpr float LEAST = -std::numeric_limits<float>::infinity();

// The highest of AT_ONCE scores; NaN counts as none.
float highest(const float* scores) {
    Floats high = Floats::load(scores);
    high = select(high == high, high, Floats::spread(LEAST));
    for (int64_t k = Floats::LANES; k < AT_ONCE; k += Floats::LANES) high = greater(Floats::load(scores + k), high);
    float lanes[Floats::LANES];
    high.store(lanes);
    return *std::max_element(lanes, lanes + Floats::LANES);
}

void top(const Top& all, Work& work) {
    Room<bool> left_out(all.columns);
    const int64_t last = all.k - 1;
    for (int64_t row; (row = work.take()) >= 0;) {
        for (int64_t at = all.start[row]; at < all.start[row + 1]; at++) left_out[all.skip[at]] = true;
        const float* score = all.scores + row * all.columns;
        int64_t* place = all.places + row * all.k;
        float* best = all.best + row * all.k;
        std::fill_n(place, all.k, int64_t(-1));
        std::fill_n(best, all.k, LEAST);
        // A sorted list of the best: nearly all columns fail the first comparison, many at once.
        for (int64_t first = 0; first < all.columns; first += AT_ONCE) {
            const int64_t stop = std::min(first + AT_ONCE, all.columns);
            if (stop - first == AT_ONCE && !(highest(score + first) > best[last])) continue;
            for (int64_t column = first; column < stop; column++) {
                const float value = score[column];
                if (!(value > best[last]) || left_out[column]) continue;
                int64_t at = last;
                for (; at > 0 && value > best[at - 1]; at--) {
                    best[at] = best[at - 1];
                    place[at] = place[at - 1];
                }
                best[at] = value;
                place[at] = column;
            }
        }
        for (int64_t at = all.start[row]; at < all.start[row + 1]; at++) left_out[all.skip[at]] = false;
    }
}

// Panel p holds columns PANEL p and on, entry by entry: [d, PANEL]; zeros beyond the last.
void turn_items(const Turning& all, Work& work) {
    for (int64_t panel; (panel = work.take()) >= 0;) {
        const int64_t first = panel * PANEL, columns = std::min(PANEL, all.columns - first);
        float* out = all.panels + first * all.d;
        for (int64_t column = 0; column < columns; column++)
            for (int64_t k = 0; k < all.d; k++) out[k * PANEL + column] = all.items[(first + column) * all.d + k];
    }
}

// So many rows of scores of one panel.
template <int rows>
void score_panel(const Scoring& all, int64_t row, int64_t panel) {
    const float *vectors = all.vectors + row * all.d, *items = all.panels + panel * PANEL * all.d;
    Floats low[rows] = {}, high[rows] = {};
    for (int64_t k = 0; k < all.d; k++) {
        const Floats x = Floats::load(items + k * PANEL), y = Floats::load(items + k * PANEL + Floats::LANES);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            const Floats v = Floats::spread(vectors[i * all.d + k]);
            low[i] = fused(v, x, low[i]);
            high[i] = fused(v, y, high[i]);
        }
    }
    const int64_t first = panel * PANEL, columns = std::min(PANEL, all.columns - first);
    for (int i = 0; i < rows; i++) {
        float lanes[PANEL];
        low[i].store(lanes);
        high[i].store(lanes + Floats::LANES);
        std::copy_n(lanes, columns, all.scores + (row + i) * all.columns + first);
    }
}

void score(const Scoring& all, Work& work) {
    constexpr int ROWS = PARTS == 1 ? 8 : 2;  // what the registers hold
    for (int64_t piece; (piece = work.take()) >= 0;) {
        const int64_t first = piece * ROWS_OF_SCORES, stop = std::min(first + ROWS_OF_SCORES, all.rows);
        for (int64_t panel = 0; panel * PANEL < all.columns && !work.stopped(); panel++) {
            int64_t row = first;
            for (; row + ROWS <= stop; row += ROWS) score_panel<ROWS>(all, row, panel);
            for (; row < stop; row++) score_panel<1>(all, row, panel);
        }
    }
}

}  // namespace

extern const TopKernels topk{top, turn_items, score};

}  // namespace ISA
