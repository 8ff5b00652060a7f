// Solutions of many small symmetric systems, see solves.cpp.
#pragma once

#include <cstdint>

#include "isa.hpp"
#include "threads.hpp"

// Matrices packed_i + scale_i * shared as upper triangles, row by row; scale and shared may be null.
struct Systems {
    const double *packed, *scale, *shared;  // [systems, n (n + 1) / 2], [systems], [n (n + 1) / 2]
    const double *b, *alpha;                // [systems, n], [systems]
    int64_t systems, n;
    double* theta;  // [systems, n]
    bool* failed;   // [systems]: not solved
};

// Systems are solved if |A| is at most `most` and at least `least` times the ridge.
struct Filter {
    double ridge, most, least;
    int64_t most_sweeps;
};

struct SolveKernels {
    void (*filtered_float)(const Systems&, const Filter&, Work&);   // a piece: 32 systems
    void (*filtered_double)(const Systems&, const Filter&, Work&);  // 16
    void (*positive)(const Systems&, Work&);                        // 8
};

DECLARE_KERNELS(SolveKernels, solves)
