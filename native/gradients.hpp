// Sums of clipped gradients: what gradients.cpp is given.
#pragma once

#include <cstdint>

#include "isa.hpp"
#include "sums.hpp"
#include "threads.hpp"

enum class LossKind { squared, logistic, hinge, huber, absolute, poisson, given, function };

struct Loss {
    LossKind kind;
    double parameter;                    // of hinge, huber and poisson
    double (*function)(double, double);  // of the margin and the label
};

// Weighted examples; their features [., d] have these norms.
struct Examples {
    const double *features, *norms;
    const int32_t* feature_row;
    const double *label, *weight, *coef;  // coef [tasks, d]
    int64_t d, tasks;
    Loss loss;
    double bound, grid;  // no grid if it is zero
};

// Rows of tasks, each clipped by itself. Into `units` [tasks, d], or, without a grid, `floats` [pieces, d].
struct RowGradients {
    Examples rows;
    const Piece* pieces;
    int64_t* units;
    double* floats;
    Locks* locks;
};

// Rows of users, start[u] : start[u + 1], sorted by task, clipped together; into `units`.
struct UserGradients {
    Examples rows;
    const int32_t* task;
    const int64_t* start;
    int64_t users;
    int64_t* units;
    Locks* locks;
};

struct GradientKernels {
    void (*of_rows)(const RowGradients&, Work&);
    void (*of_users)(const UserGradients&, Work&);  // pieces of GRADIENTS_AT_ONCE users
    double (*derivative)(const Loss&, double z, double y);
};

constexpr int64_t GRADIENTS_AT_ONCE = 64;

DECLARE_KERNELS(GradientKernels, gradients)
