// Users' systems: what users.cpp is given.
#pragma once

#include <cstdint>

#include "isa.hpp"
#include "threads.hpp"

// v_u = argmin over v of the sum of (y - x.v)^2 over the rows of u, + v' (shared + ridge_u I) v.
struct UserSystems {
    const int64_t* start;  // rows of user u are start[u] : start[u + 1]
    const int32_t* item;   // x of a row is items[item]
    const double* label;   // y
    const double* items;   // [., d]
    const double* ridge;   // [users]
    const double* shared;  // [d, d]
    // With shared = Q S Q': items Q in float32 and whole vectors [items + 1, width], the last of which is zero; S,
    // not below zero; and Q' [width, width], or null where it is the identity.
    const float* turned;
    const double* eigenvalues;
    const float* back;
    int64_t users, rows, nothing, d, width;  // `nothing`: the zero row of `turned`
    int64_t most;                            // rows that a user may have for conjugate gradients
    double* vectors;                         // [users, d], or null
    int16_t* shorts;                         // [users, width], or null
    double limit, unit;  // of `shorts`: vectors are cut (or stretched) to this length, in these units
    bool stretch;
    bool exact;  // in float64 from the start
};

// Rows [count, d] as 16-bit whole numbers [count, width], by the same rule.
struct ShortRows {
    const double* rows;
    int64_t count, d, width;
    double limit, unit;
    bool stretch;
    int16_t* shorts;
};

struct UserKernels {
    void (*solve)(const UserSystems&, Work&);  // pieces of USERS_AT_ONCE users
    void (*shorten)(const ShortRows&, Work&);  // pieces of ROWS_AT_ONCE rows
};

constexpr int64_t USERS_AT_ONCE = 32, ROWS_AT_ONCE = 1024;

DECLARE_KERNELS(UserKernels, users)
