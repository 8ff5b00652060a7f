// Discrete Gaussian noise: whole numbers i with probability proportional to exp(-i^2 / (2 v)), from random words.
//
// Rejection, see privacy/discrete.py, whose `_fill` defines what is computed here. Two words make a number: it lies
// in a block of the half-line, whose chance is a whole number of 2^-40 (Walker's alias table), and is kept if
//
//     u < exp(log_k - i^2 / (2 v)),
//
// of u the first 31 binary digits being known. Floating-point numbers decide only where they are beyond doubt (the
// error of the right-hand side is below 2^-41 of it, the doubt is 2^-36); otherwise the number is handed back, and
// more digits are computed. So the distribution is exact, which the bound of every release rests on; and a key
// gives the same noise on every machine.
#include "noise.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "vectors.hpp"

namespace ISA {
namespace {

// exp(x) for x <= 1, within 2^-50 of it, above 2^-1009 always: not the C library's, so that all machines agree.
double exponential(double x) {
    x = x > -700.0 ? x : -700.0;
    x = x < 1.0 ? x : 1.0;
    // x = k log(2) + r, |r| < .35; the first part of log(2) has so few bits that k times it is exact.
    const double k = std::nearbyint(x * 1.4426950408889634);
    const double r = (x - k * 0.6931471803691238) - k * 1.9082149292705877e-10;
    double power = 1.0 / 6227020800.0;
    for (double next : {1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0,
                        1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0})
        power = power * r + next;
    const uint64_t bits = uint64_t(int64_t(k) + 1023) << 52;
    double two_to_k;
    std::memcpy(&two_to_k, &bits, sizeof bits);
    return power * two_to_k;
}

// Go on until out is full, words are short, or a number is in doubt (it is in its place already). `at` counts
// numbers row by row, within a row in the given order of columns.
Filling fill(const Distribution& by, int64_t* out, int64_t count, int64_t at, const uint64_t* words, int64_t supply,
             int64_t used) {
    while (at < count) {
        const int64_t first_of_row = at / by.columns * by.columns;
        int64_t* row = out + first_of_row;
        int64_t place = at - first_of_row, scale = 0;
        while (by.ends[scale] <= place) scale++;
        const int64_t end = by.ends[scale];
        const uint64_t block = by.block[scale], shift = by.shift[scale], unused = 24 - shift;
        const uint64_t limit = (uint64_t(1) << 32) % block, width = block << shift;
        const int64_t* low = by.low + scale * BLOCKS;
        const double factor = -0.5 / by.variance[scale];
        while (place < end) {
            if (used + 1 >= supply) return {first_of_row + place, used, Filled::words, 0, 0, 0, 0};
            const uint64_t first = words[used], second = words[used + 1];
            used += 2;
            uint64_t k = first & (BLOCKS - 1);
            const uint64_t other = by.other[k];
            k = ((first >> BLOCK_BITS) & ((uint64_t(1) << COLUMN_BITS) - 1)) >= by.cut[k] ? other : k;
            // A place in the block: a number below `block`, and bits behind it in wide blocks.
            const uint64_t product = (second >> 32) * block;
            const uint64_t inside = (product >> 32 << shift) | (first >> 40 >> unused);
            // k < 2^10 and width <= 2^49 (v < 2^104), so this is below 2^60.
            const int64_t size = int64_t(k * width + inside);
            const int64_t minus = (second >> 31) & 1, digits = second & 0x7FFFFFFF;
            const int64_t column = by.order[place];
            if (uint64_t(column) >= uint64_t(by.columns))
                return {first_of_row + place, used, Filled::misplaced, 0, 0, 0, 0};
            row[column] = (size ^ -minus) + minus;         // its negative, if there is a minus
            if ((product & 0xFFFFFFFF) < limit) continue;  // or some places would come more often than others
            if (size == 0 && minus) continue;              // zero would count twice
            if (digits >= low[k]) {
                const double chance = exponential(by.log[k] + factor * double(size) * double(size)) * 2147483648.0;
                if (double(digits) >= chance * (1 + by.doubt)) continue;
                if (double(digits + 1) > chance * (1 - by.doubt))
                    return {first_of_row + place, used, Filled::doubtful, size, int64_t(k), digits, scale};
            }
            place++;
        }
        at = first_of_row + place;
    }
    return {at, used, Filled::done, 0, 0, 0, 0};
}

}  // namespace

extern const NoiseKernels noise{fill};

}  // namespace ISA
