// Exact sums over users, task by task. Every row is brought to whole numbers by a rule of that row alone, and these
// are added: leaving out a user changes a sum by the user's part and by nothing else, in any order and any threads.
//
// Features x are 16-bit numbers in units of `unit`, |x| <= LONGEST = 2^15 - 1. In units of the grids:
//
//     b += trunc(f x),  f = w y share unit / grid_of_b.        Toward zero: no norm becomes larger.
//     A += z z',        z = round(g x),  g = (r - slack) / LONGEST,  r = sqrt(w) longest,
//                       longest = LONGEST unit / sqrt(grid),  slack = sqrt(d) / 2.
//
// Rounding moves a vector by at most slack, so |z| <= r and |z z'| <= r^2 = w (LONGEST unit)^2 / grid: the bound of
// w x x' holds after rounding, up to 2^-21 for the factors in float32. Next to A, b takes weight ((r - slack) /
// longest)^2.
//
// No sum overflows. |z_k| <= r (1 + 2^-15) + 1/2 <= 2^14 fits into 16 bits as longest <= 2^13.5 (checked at the
// border) and w <= 1 (likewise), a sum of two products into 2^29, and products are added in 32 bits only while the
// r^2 of their rows add up to less than ROOM. Parts of b are added in 32 bits while |f| 2^15 adds up to less than
// ROOM; a row that alone is more (|x| is tiny, or its bound was broken) is added in 64 bits, number by number, and
// a number that is not below 2^31 gives zero. 64 bits then hold the sum of 2^32 rows of 2^31 (rows are counted at
// the border).
#include "sums.hpp"

#include <algorithm>
#include <cmath>

#include "gram.hpp"
#include "memory.hpp"
#include "vectors.hpp"

namespace ISA {
namespace {

constexpr int TILE = 64, AHEAD = 16;  // pairs of rows; rows that are asked for before they are needed
constexpr double LONGEST = 32767.0, SHORT = 32768.0;
constexpr double ROOM = 2147483648.0 - 65536.0, BEYOND = 1152921504606846976.0;
#if defined(__AVX512F__)
constexpr int WORD_ROWS = 8, WORD_VECTORS = 2;  // of a block that registers hold
#else
constexpr int WORD_ROWS = 4, WORD_VECTORS = 1;
#endif

template <class Number>
void ask_for(const Number* row, int64_t width) {
    for (int64_t k = 0; k < width; k += 64 / int64_t(sizeof(Number))) __builtin_prefetch(row + k);
}

// A factor of this size belongs to features that are all zero; so does one that is not a number.
double within(double factor) {
    return std::fabs(factor) < BEYOND ? factor : 0.0;
}

// Rows of features, each with a factor, that are to be added to a right-hand side.
struct Labels {
    const int16_t* row[2 * TILE];
    float factor[2 * TILE];
};

// total[k] += sum of trunc(factor row[k]), so many vectors at a time, from k on; where it ended.
template <int vectors>
int64_t add_truncated(int64_t* total, const Labels& some, int first, int stop, int64_t k, int64_t width) {
    for (; k + vectors * 16 <= width; k += vectors * 16) {
        Words sums[vectors] = {};
        for (int i = first; i < stop; i++) {
            const Floats factor = Floats::spread(some.factor[i]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                sums[v] = sums[v] + truncated(load_shorts(some.row[i] + k + v * 16) * factor);
        }
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) add_to(total + k + v * 16, sums[v]);
    }
    return k;
}

// The same for one row whose numbers may be too large for 32 bits.
void add_large(int64_t* total, const int16_t* row, float factor, int64_t width) {
    for (int64_t k = 0; k < width; k++) {
        const float part = float(row[k]) * factor;
        total[k] += std::fabs(part) < 2147483648.0f ? int64_t(part) : 0;
    }
}

// As many at once as 32 bits hold the sum of for certain.
void add_labels(int64_t* total, const Labels& some, int count, int64_t width) {
    auto add = [&](int first, int stop) {
        if (first == stop) return;
        const int64_t k = add_truncated<4>(total, some, first, stop, 0, width);
        add_truncated<1>(total, some, first, stop, k, width);
    };
    int first = 0;
    double held = 0.0;
    for (int i = 0; i < count; i++) {
        const double size = std::fabs(double(some.factor[i])) * SHORT;
        if (held + size > ROOM) {
            add(first, i);
            first = i;
            held = 0.0;
        }
        if (size > ROOM) {
            add_large(total, some.row[i], some.factor[i], width);
            first = i + 1;
        } else {
            held += size;
        }
    }
    add(first, count);
}

// Two rows, round(f x) in the lower and round(g y) in the upper halves.
void put_pair(int32_t* out, const int16_t* x, float f, const int16_t* y, float g, int64_t width) {
    // Added to a number below 2^22, this leaves the number, rounded, in the last bits of the sum.
    const Floats large = Floats::spread(1.5f * 8388608.0f), fs = Floats::spread(f), gs = Floats::spread(g);
    for (int64_t k = 0; k < width; k += 16) {
        const Words low = bits_as<Words>(load_shorts(x + k) * fs + large);
        const Words high = bits_as<Words>(load_shorts(y + k) * gs + large);
        ((low & Words::spread(0xFFFF)) | (high << 16)).store(out + k);
    }
}

// total[p, q] = sum of products over the pairs (+ what was there, unless it is fresh), p < WORD_ROWS, q in the
// vectors.
template <int vectors, bool fresh>
void add_block(const int32_t* left, const int32_t* right, int pairs, int32_t* total, int64_t width) {
    Words sums[vectors][WORD_ROWS] = {};
    for (int pair = 0; pair < pairs; pair++, left += width, right += width) {
        Words y[vectors];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) y[v] = Words::load(right + v * 16);
#pragma GCC unroll 8
        for (int p = 0; p < WORD_ROWS; p++) {
            const Words x = Words::spread(left[p]);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) sums[v][p] = add_pairs(x, y[v], sums[v][p]);
        }
    }
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
#pragma GCC unroll 8
        for (int p = 0; p < WORD_ROWS; p++) {
            int32_t* here = total + p * width + v * 16;
            (fresh ? sums[v][p] : Words::load(here) + sums[v][p]).store(here);
        }
}

// The sums of z z' over the pairs of rows of a tile, in the upper triangle of total [width, width].
template <bool fresh>
void add_products(const int32_t* tile, int pairs, int32_t* total, int64_t width) {
    for (int64_t i = 0; i < width; i += WORD_ROWS) {
        int64_t j = i / 16 * 16;
        for (; j + WORD_VECTORS * 16 <= width; j += WORD_VECTORS * 16)
            add_block<WORD_VECTORS, fresh>(tile + i, tile + j, pairs, total + i * width + j, width);
        if (j < width) add_block<1, fresh>(tile + i, tile + j, pairs, total + i * width + j, width);
    }
}

// r = sqrt(w) longest of the rows, and a zero; no less than any number of the sum of their z z'.
double lengths_of(const double* weight, int64_t rows, double longest, double* lengths) {
    double gathered = 0.0;
    for (int64_t i = 0; i < rows; i++) {
        lengths[i] = std::sqrt(weight[i]) * longest;
        gathered += (lengths[i] + 1.0) * (lengths[i] + 1.0);
    }
    lengths[rows] = 0.0;
    return gathered * (1.0 + 1.0 / 8192.0);
}

// A and b of one piece after the other, in room of a thread's own.
class Gram {
    const GramSums& all_;
    const TaskRows<int16_t>& rows_;
    const int64_t width_;
    Room<int32_t> total_, tile_;
    Room<int64_t> large_, b_;
    bool moved_ = false, fresh_ = true;

    // Of 32-bit sums to where there is room.
    void move() {
        for (int64_t p = 0; p < width_; p++)
            for (int64_t at = p * width_ + p; at < (p + 1) * width_; at++)
                large_[at] = (moved_ ? large_[at] : 0) + total_[at];
        moved_ = fresh_ = true;
    }

    template <class Number>
    void add_packed(const Number* square, int64_t* packed) const {
        for (int64_t p = 0; p < rows_.d; packed += rows_.d - p++)
            for (int64_t q = p; q < rows_.d; q++) packed[q - p] += square[p * width_ + q];
    }

public:
    explicit Gram(const GramSums& all)
        : all_(all),
          rows_(all.rows),
          width_(all.rows.width),
          total_(width_ * width_, UNTOUCHED),
          tile_(TILE * width_),
          large_(width_ * width_, UNTOUCHED),
          b_(width_) {}

    void operator()(const Piece& piece, Work& work) {
        const double longest = all_.longest, per_square = all_.to_grid / longest / longest;
        double held = 0.0, lengths[2 * TILE + 1];
        Labels labels;
        std::fill_n(b_.data(), width_, int64_t(0));
        moved_ = false;
        fresh_ = true;
        for (int64_t row = piece.first, rows; row < piece.stop; row += rows) {
            if (work.stopped()) return;
            rows = std::min<int64_t>(2 * TILE, piece.stop - row);
            double gathered = lengths_of(rows_.weight + row, rows, longest, lengths);
            while (gathered > ROOM && rows > 2) {  // two always fit: no weight is above one
                rows = std::max<int64_t>(2, rows / 4 * 2);
                gathered = lengths_of(rows_.weight + row, rows, longest, lengths);
            }
            for (int64_t at = 0; at < rows; at += 2) {
                for (int64_t ahead = row + at + AHEAD; ahead < std::min(row + at + AHEAD + 2, piece.stop); ahead++)
                    ask_for(rows_.features + rows_.user[ahead] * width_, width_);
                float factor[2];
                for (int64_t i = at; i < at + 2; i++) {
                    // The last row of all may have no other: any will do, times zero.
                    const int64_t here = std::min(row + i, piece.stop - 1), user = rows_.user[here];
                    const double r = std::max(lengths[i] - all_.slack, 0.0);
                    const double y = rows_.label[here] * (rows_.share ? rows_.share[user] : 1.0);
                    factor[i - at] = float(r * (1.0 / LONGEST));
                    labels.row[i] = rows_.features + user * width_;
                    labels.factor[i] = float(within(r * r * y * per_square));
                }
                put_pair(tile_.data() + at / 2 * width_, labels.row[at], factor[0], labels.row[at + 1], factor[1],
                         width_);
            }
            add_labels(b_.data(), labels, int(rows), width_);
            if (held + gathered > ROOM) {
                move();
                held = 0.0;
            }
            const int pairs = int(rows + 1) / 2;
            fresh_ ? add_products<true>(tile_.data(), pairs, total_.data(), width_)
                   : add_products<false>(tile_.data(), pairs, total_.data(), width_);
            fresh_ = false;
            held += gathered;
        }
        if (piece.first == piece.stop) return;
        if (moved_) move();
        all_.locks->lock(piece.task);
        int64_t* packed = all_.second + piece.task * (rows_.d * (rows_.d + 1) / 2);
        moved_ ? add_packed(large_.data(), packed) : add_packed(total_.data(), packed);
        for (int64_t p = 0; p < rows_.d; p++) all_.moments[piece.task * rows_.d + p] += b_[p];
        all_.locks->unlock(piece.task);
    }
};

void gram(const GramSums& all, Work& work) {
    Gram sum(all);
    for (int64_t piece; (piece = work.take()) >= 0;) sum(all.pieces[piece], work);
}

int64_t task_of_row(const TaskRows<int16_t>& rows, int64_t row) {
    return std::upper_bound(rows.start + 1, rows.start + rows.tasks, row) - (rows.start + 1);
}

// b alone. A piece goes through its tasks many times, each time as far as the features of some users reach that fit
// into a cache together: the rows of a task are sorted by user, usually (if not, this is only slower).
void add_piece(const LabelSums& all, int64_t piece, Work& work) {
    const TaskRows<int16_t>& rows = all.rows;
    const int64_t count = rows.start[rows.tasks], width = rows.width;
    const int64_t begin = count * piece / all.pieces, end = count * (piece + 1) / all.pieces;
    if (begin == end) return;
    const int64_t low = task_of_row(rows, begin), high = task_of_row(rows, end - 1) + 1;
    Room<int64_t> reached(high - low);
    for (int64_t task = low; task < high; task++) reached[task - low] = std::max(rows.start[task], begin);
    Labels labels;
    for (int64_t limit = all.at_once; limit < rows.users + all.at_once; limit += all.at_once) {
        const bool last = limit >= rows.users;
        for (int64_t task = low; task < high; task++) {
            if (task % 64 == 0 && work.stopped()) return;
            int64_t row = reached[task - low];
            const int64_t stop = std::min(rows.start[task + 1], end);
            const bool shared = rows.start[task] < begin;
            int64_t* out = shared ? all.edges + piece * width : all.sums + task * width;
            int held = 0;
            for (; row < stop && (last || rows.user[row] < limit); row++) {
                const int64_t user = rows.user[row];
                const double y = rows.label[row] * (rows.share ? rows.share[user] : 1.0);
                labels.row[held] = rows.features + user * width;
                labels.factor[held] = float(within(rows.weight[row] * y * all.to_grid));
                ask_for(labels.row[held], width);
                if (++held == 2 * TILE) {
                    add_labels(out, labels, held, width);
                    held = 0;
                    if (work.stopped()) return;
                }
            }
            if (held) add_labels(out, labels, held, width);
            reached[task - low] = row;
        }
    }
}

void labels(const LabelSums& all, Work& work) {
    for (int64_t piece; (piece = work.take()) >= 0;) add_piece(all, piece, work);
}

// Float64, where there is no noise: the rows of a piece in their order, a tile at a time.
void floats(const FloatSums& all, Work& work) {
    const TaskRows<double>& rows = all.rows;
    const int64_t d = rows.d, width = (d + 7) / 8 * 8;
    Room<double> total(width * width, UNTOUCHED), tile(TILE * width), weighted(TILE * width), b(width);
    for (int64_t piece; (piece = work.take()) >= 0;) {
        std::fill_n(total.data(), width * width, 0.0);
        std::fill_n(b.data(), width, 0.0);
        const Piece& own = all.pieces[piece];
        for (int64_t begin = own.first; begin < own.stop && !work.stopped(); begin += TILE) {
            const int64_t end = std::min(begin + TILE, own.stop);
            for (int64_t row = begin; row < end; row++) {
                if (row + AHEAD < own.stop) ask_for(rows.features + rows.user[row + AHEAD] * d, d);
                const int64_t user = rows.user[row];
                double *x = tile.data() + (row - begin) * width, *wx = weighted.data() + (row - begin) * width;
                std::copy_n(rows.features + user * d, d, x);
                const double y = rows.label[row] * (rows.share ? rows.share[user] : 1.0);
                const Doubles w = Doubles::spread(rows.weight[row]), wy = Doubles::spread(rows.weight[row] * y);
                for (int64_t k = 0; k < width; k += 8) {
                    const Doubles part = Doubles::load(x + k);
                    (w * part).store(wx + k);
                    fused(wy, part, Doubles::load(b.data() + k)).store(b.data() + k);
                }
            }
            add_gram(weighted.data(), tile.data(), end - begin, total.data(), width);
        }
        std::copy_n(b.data(), d, all.moments + piece * d);
        double* packed = all.second + piece * (d * (d + 1) / 2);
        for (int64_t p = 0; p < d; packed += d - p++) std::copy_n(total.data() + p * width + p, d - p, packed);
    }
}

}  // namespace

extern const SumKernels sums = {gram, labels, floats};

}  // namespace ISA
