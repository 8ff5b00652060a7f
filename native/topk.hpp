// Scores and the columns with the highest ones, see topk.cpp.
#pragma once

#include <cstdint>

#include "isa.hpp"
#include "threads.hpp"

constexpr int64_t PANEL = 32, ROWS_OF_SCORES = 64;

struct Top {
    const float* scores;          // [rows, columns]
    const int64_t *start, *skip;  // [rows + 1], [.]: what a row leaves out
    int64_t rows, columns, k;
    int64_t* places;  // [rows, k]
    float* best;      // [rows, k]
};

// Items as scoring reads them: panel by panel, [columns in whole panels, d].
struct Turning {
    const float* items;  // [columns, d]
    int64_t columns, d;
    float* panels;
};

struct Scoring {
    const float *vectors, *panels;  // [rows, d], as above
    int64_t rows, columns, d;
    float* scores;  // [rows, columns]
};

struct TopKernels {
    void (*top)(const Top&, Work&);             // a piece: a row
    void (*turn_items)(const Turning&, Work&);  // a panel
    void (*score)(const Scoring&, Work&);       // ROWS_OF_SCORES rows
};

DECLARE_KERNELS(TopKernels, topk)
