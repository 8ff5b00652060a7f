// Sums over rows, task by task: what sums.cpp is given.
#pragma once

#include <cstdint>
#include <vector>

#include "isa.hpp"
#include "threads.hpp"

// Rows of tasks, start[i] : start[i + 1]. A row has features of its user, a label and a weight; the label counts
// times the user's share.
template <class Number>
struct TaskRows {
    const Number* features;  // [users, width]
    const int32_t* user;
    const double *label, *share, *weight;  // share [users], or null for ones
    const int64_t* start;
    int64_t tasks, users, width, d;
};

// Some rows of a task, to be summed by one thread.
struct Piece {
    int64_t task, first, stop;
};

// Every weight is from 0 to 1; otherwise a ValueError.
void require_weights(const double* weight, int64_t count, int64_t threads);

// All rows of all tasks in order: long tasks in pieces of PIECE_ROWS rows, or longer ones if there were more of a
// task than `most`.
std::vector<Piece> pieces_of(const int64_t* start, int64_t tasks, int64_t most);
constexpr int64_t PIECE_ROWS = 1 << 15;
constexpr int64_t FLOAT_PIECES = 16;  // of a task, where each takes memory

// sum of z z' [tasks, d (d + 1) / 2] and of w y x [tasks, d], in units of the grids.
struct GramSums {
    TaskRows<int16_t> rows;
    const Piece* pieces;
    double longest, slack, to_grid;
    int64_t *second, *moments;
    Locks* locks;
};

// sum of w y x [tasks, width], in units of the grid.
struct LabelSums {
    TaskRows<int16_t> rows;
    int64_t pieces;   // equal parts of all rows
    int64_t at_once;  // users whose features stay in a cache
    double to_grid;
    int64_t *sums,
        *edges;  // [tasks, width]; [pieces, width]: of a piece's first task, if it began in another piece
};

// sum of w x x' and of w y x in float64, a piece each [pieces, ...]: where there is no noise.
struct FloatSums {
    TaskRows<double> rows;
    const Piece* pieces;
    double *second, *moments;
};

struct SumKernels {
    void (*gram)(const GramSums&, Work&);
    void (*labels)(const LabelSums&, Work&);
    void (*floats)(const FloatSums&, Work&);
};

DECLARE_KERNELS(SumKernels, sums)
