// Whole numbers with a discrete Gaussian distribution, see noise.cpp.
#pragma once

#include <cstdint>

#include "isa.hpp"

constexpr int64_t BLOCKS = 1024, BLOCK_BITS = 10, COLUMN_BITS = 30;

// The table of blocks, and the variances of the columns of an array. See Blocks and Scales in privacy/discrete.py.
struct Distribution {
    const double* log;      // [BLOCKS]
    const uint64_t* cut;    // [BLOCKS]
    const uint16_t* other;  // [BLOCKS]
    double doubt;
    const int64_t *order, *ends;    // [columns], [variances]
    const double* variance;         // [variances]
    const uint64_t *block, *shift;  // [variances]
    const int64_t* low;             // [variances, BLOCKS]
    int64_t columns, variances;
};

// misplaced: `order` names a column that is not there.
enum class Filled : int64_t { done, words, doubtful, misplaced };

// How far an array is filled, and a number in doubt.
struct Filling {
    int64_t at, used;
    Filled state;
    int64_t size, block, digits, scale;
};

struct NoiseKernels {
    Filling (*fill)(const Distribution&, int64_t* out, int64_t count, int64_t at, const uint64_t* words,
                    int64_t supply, int64_t used);
};

DECLARE_KERNELS(NoiseKernels, noise)
