// Derivatives of losses in the margin z, of label y; and exp, the same to the bit on every processor.
//
// tasks/losses.py says what they are the derivatives of. A margin or label that is not a number gives none.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

#include "gradients.hpp"
#include "vectors.hpp"

namespace ISA {

// e^x to an error below one unit in the last place: x = n log 2 + r, e^x = 2^n e^r, e^r by its Taylor series.
inline double exponential(double x) {
    if (!(x == x)) return x;
    if (x > 709.0) return std::numeric_limits<double>::infinity();
    if (x < -708.0) return 0.0;
    constexpr double large =
        6755399441055744.0;  // 1.5 * 2^52: a number that is added to it is rounded to a whole one
    const double n = (x * 1.4426950408889634 + large) - large;
    // log 2 in two parts, the first with zeros at its end.
    double r = fused(-n, 0.6931471803691238, x);
    r = fused(-n, 1.9082149292705877e-10, r);
    constexpr double over_factorial[] = {1.0 / 6227020800.0,
                                         1.0 / 479001600.0,
                                         1.0 / 39916800.0,
                                         1.0 / 3628800.0,
                                         1.0 / 362880.0,
                                         1.0 / 40320.0,
                                         1.0 / 5040.0,
                                         1.0 / 720.0,
                                         1.0 / 120.0,
                                         1.0 / 24.0,
                                         1.0 / 6.0,
                                         0.5,
                                         1.0,
                                         1.0};
    double sum = 0.0;
    for (double each : over_factorial) sum = fused(sum, r, each);
    const int64_t bits = (int64_t(n) + 1023) << 52;
    double power;
    std::memcpy(&power, &bits, sizeof power);
    return sum * power;
}

inline double at_most(double x, double limit) {
    return limit < x ? limit : x;
}
inline double at_least(double x, double limit) {
    return limit > x ? limit : x;
}

inline double derivative(const Loss& loss, double z, double y) {
    switch (loss.kind) {
        case LossKind::squared:
            return z - y;
        case LossKind::logistic:
            return -y / (1.0 + exponential(at_most(y * z, 700.0)));
        case LossKind::hinge:
            return -y * at_most(at_least((1.0 - y * z) / loss.parameter, 0.0), 1.0);
        case LossKind::huber:
            return at_most(at_least(z - y, -loss.parameter), loss.parameter);
        case LossKind::absolute:
            return z > y ? 1.0 : z < y ? -1.0 : 0.0;
        case LossKind::poisson:
            return exponential(at_most(z, loss.parameter)) - y;
        case LossKind::given:
            return y;
        case LossKind::function:
            return loss.function(z, y);
    }
    return 0.0;
}

}  // namespace ISA
