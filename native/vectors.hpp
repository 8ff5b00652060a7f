// Vectors of 64 bytes (16 float or int32_t, 8 double or int64_t), in as many registers as the processor needs.
//
// A lane does the same arithmetic under every instruction set, sums are made in the same order, and products are
// fused where `fused` says so and nowhere else (-ffp-contract=off): results are the same to the bit.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace ISA {

#if defined(__AVX512F__)
constexpr int REGISTER = 64;
#elif defined(__AVX2__)
constexpr int REGISTER = 32;
#else
constexpr int REGISTER = 16;
#endif
constexpr int PARTS = 64 / REGISTER;

// work(0), work(1), ..., written out: in a loop GCC keeps vectors in memory.
template <class Function>
[[gnu::always_inline]] inline void each_part(Function work) {
    work(0);
    if constexpr (PARTS >= 2) work(1);
    if constexpr (PARTS == 4) {
        work(2);
        work(3);
    }
}
#define PART [&](int i) __attribute__((always_inline))

template <class Number>
using WholeOf = std::conditional_t<sizeof(Number) == 4, int32_t, int64_t>;

template <class Number>
struct Vector {
    static constexpr int LANES = 64 / sizeof(Number);
    static constexpr int IN_PART = LANES / PARTS;
    typedef Number Part __attribute__((vector_size(REGISTER)));
    using Mask = Vector<WholeOf<Number>>;  // lanes of all ones or zeros
    Part part[PARTS];

    [[gnu::always_inline]] static Vector spread(Number x) {
        Vector out;
        each_part(PART { out.part[i] = x - Part{}; });
        return out;
    }
    [[gnu::always_inline]] static Vector load(const Number* from) {
        Vector out;
        each_part(PART { std::memcpy(&out.part[i], from + i * IN_PART, sizeof(Part)); });
        return out;
    }
    [[gnu::always_inline]] void store(Number* to) const {
        each_part(PART { std::memcpy(to + i * IN_PART, &part[i], sizeof(Part)); });
    }
    Number lane(int k) const {
        Number lanes[LANES];
        store(lanes);
        return lanes[k];
    }

    [[gnu::always_inline]] friend Vector operator+(Vector a, Vector b) {
        each_part(PART { a.part[i] = a.part[i] + b.part[i]; });
        return a;
    }
    [[gnu::always_inline]] friend Vector operator-(Vector a, Vector b) {
        each_part(PART { a.part[i] = a.part[i] - b.part[i]; });
        return a;
    }
    [[gnu::always_inline]] friend Vector operator*(Vector a, Vector b) {
        each_part(PART { a.part[i] = a.part[i] * b.part[i]; });
        return a;
    }
    [[gnu::always_inline]] friend Vector operator/(Vector a, Vector b) {
        each_part(PART { a.part[i] = a.part[i] / b.part[i]; });
        return a;
    }
    [[gnu::always_inline]] friend Vector operator-(Vector a) {
        each_part(PART { a.part[i] = -a.part[i]; });
        return a;
    }
    [[gnu::always_inline]] friend Mask operator<(Vector a, Vector b) {
        Mask out;
        each_part(PART { out.part[i] = (typename Mask::Part)(a.part[i] < b.part[i]); });
        return out;
    }
    [[gnu::always_inline]] friend Mask operator<=(Vector a, Vector b) {
        Mask out;
        each_part(PART { out.part[i] = (typename Mask::Part)(a.part[i] <= b.part[i]); });
        return out;
    }
    [[gnu::always_inline]] friend Mask operator==(Vector a, Vector b) {
        Mask out;
        each_part(PART { out.part[i] = (typename Mask::Part)(a.part[i] == b.part[i]); });
        return out;
    }
    // For whole numbers and masks.
    [[gnu::always_inline]] friend Vector operator&(Vector a, Vector b) {
        each_part(PART { a.part[i] = a.part[i] & b.part[i]; });
        return a;
    }
    [[gnu::always_inline]] friend Vector operator|(Vector a, Vector b) {
        each_part(PART { a.part[i] = a.part[i] | b.part[i]; });
        return a;
    }
    [[gnu::always_inline]] friend Vector operator<<(Vector a, int bits) {
        each_part(PART { a.part[i] = a.part[i] << bits; });
        return a;
    }
    [[gnu::always_inline]] friend Vector operator>>(Vector a, int bits) {
        each_part(PART { a.part[i] = a.part[i] >> bits; });
        return a;
    }
};

using Floats = Vector<float>;
using Doubles = Vector<double>;
using Words = Vector<int32_t>;
using Longs = Vector<int64_t>;

// The same bits as numbers of another kind.
template <class To, class From>
[[gnu::always_inline]] inline To bits_as(From x) {
    static_assert(sizeof(To) == sizeof(From));
    To out;
    each_part(PART { out.part[i] = (typename To::Part)x.part[i]; });
    return out;
}

// In each lane the one number or the other.
template <class Number>
[[gnu::always_inline]] inline Vector<Number> select(typename Vector<Number>::Mask mask, Vector<Number> yes,
                                                    Vector<Number> no) {
    each_part(PART { yes.part[i] = mask.part[i] ? yes.part[i] : no.part[i]; });
    return yes;
}

// The lesser and the greater; b where either is NaN.
template <class Number>
[[gnu::always_inline]] inline Vector<Number> lesser(Vector<Number> a, Vector<Number> b) {
    return select(a < b, a, b);
}
template <class Number>
[[gnu::always_inline]] inline Vector<Number> greater(Vector<Number> a, Vector<Number> b) {
    return select(b < a, a, b);
}

template <class Number>
[[gnu::always_inline]] inline Vector<Number> size(Vector<Number> a) {
    using Mask = typename Vector<Number>::Mask;
    using Whole = WholeOf<Number>;
    constexpr Whole all_but_sign = sizeof(Number) == 4 ? Whole(0x7FFFFFFF) : Whole(0x7FFFFFFFFFFFFFFF);
    return bits_as<Vector<Number>>(bits_as<Mask>(a) & Mask::spread(all_but_sign));
}

[[gnu::always_inline]] inline Floats root(Floats a) {
#if defined(__AVX512F__)
    a.part[0] = (Floats::Part)_mm512_sqrt_ps((__m512)a.part[0]);
#elif defined(__AVX2__)
    each_part(PART { a.part[i] = (Floats::Part)_mm256_sqrt_ps((__m256)a.part[i]); });
#elif defined(__x86_64__)
    each_part(PART { a.part[i] = (Floats::Part)_mm_sqrt_ps((__m128)a.part[i]); });
#else
    each_part(PART {
        for (int k = 0; k < 4; k++) a.part[i][k] = __builtin_sqrtf(a.part[i][k]);
    });
#endif
    return a;
}

[[gnu::always_inline]] inline Doubles root(Doubles a) {
#if defined(__AVX512F__)
    a.part[0] = (Doubles::Part)_mm512_sqrt_pd((__m512d)a.part[0]);
#elif defined(__AVX2__)
    each_part(PART { a.part[i] = (Doubles::Part)_mm256_sqrt_pd((__m256d)a.part[i]); });
#elif defined(__x86_64__)
    each_part(PART { a.part[i] = (Doubles::Part)_mm_sqrt_pd((__m128d)a.part[i]); });
#else
    each_part(PART {
        for (int k = 0; k < 2; k++) a.part[i][k] = __builtin_sqrt(a.part[i][k]);
    });
#endif
    return a;
}

// a * b + c, rounded once.
[[gnu::always_inline]] inline Doubles fused(Doubles a, Doubles b, Doubles c) {
#if defined(__AVX512F__)
    c.part[0] = (Doubles::Part)_mm512_fmadd_pd((__m512d)a.part[0], (__m512d)b.part[0], (__m512d)c.part[0]);
#elif defined(__FMA__)
    each_part(PART {
        c.part[i] = (Doubles::Part)_mm256_fmadd_pd((__m256d)a.part[i], (__m256d)b.part[i], (__m256d)c.part[i]);
    });
#elif defined(__aarch64__)
    each_part(PART {
        c.part[i] = (Doubles::Part)vfmaq_f64((float64x2_t)c.part[i], (float64x2_t)a.part[i], (float64x2_t)b.part[i]);
    });
#else  // the C library's: exact, and slow where the processor has no instruction for it
    each_part(PART {
        for (int k = 0; k < 2; k++) c.part[i][k] = __builtin_fma(a.part[i][k], b.part[i][k], c.part[i][k]);
    });
#endif
    return c;
}

#if !defined(__FMA__) && !defined(__aarch64__)
// Two lanes of a * b + c without an instruction for it. The product of two floats is exact as a double. The sum is
// rounded to odd (if it is not exact, its last bit is one), and then to float: with at least two bits more than a
// float has, the second rounding is that of the exact sum.
typedef double TwoDoubles __attribute__((vector_size(16)));
typedef int64_t TwoLongs __attribute__((vector_size(16)));
[[gnu::always_inline]] inline TwoDoubles sum_to_odd(TwoDoubles product, TwoDoubles c) {
    const TwoDoubles sum = product + c, back = sum - product;
    const TwoDoubles error = (product - (sum - back)) + (c - back);  // exact; NaN if the sum is not finite
    const TwoDoubles none = {};
    const TwoLongs inexact = (error < none) | (error > none);
    TwoLongs bits = (TwoLongs)sum;
    const TwoLongs even = (bits & 1) == 0;
    // Towards the exact sum: away from zero if the error has the sign of the sum, else towards it.
    const TwoLongs away = ((error > none) == (sum > none));
    bits += inexact & even & (away ? TwoLongs{1, 1} : TwoLongs{-1, -1});
    return (TwoDoubles)bits;
}
#endif

[[gnu::always_inline]] inline Floats fused(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
    c.part[0] = (Floats::Part)_mm512_fmadd_ps((__m512)a.part[0], (__m512)b.part[0], (__m512)c.part[0]);
#elif defined(__FMA__)
    each_part(PART {
        c.part[i] = (Floats::Part)_mm256_fmadd_ps((__m256)a.part[i], (__m256)b.part[i], (__m256)c.part[i]);
    });
#elif defined(__aarch64__)
    each_part(PART {
        c.part[i] = (Floats::Part)vfmaq_f32((float32x4_t)c.part[i], (float32x4_t)a.part[i], (float32x4_t)b.part[i]);
    });
#else
    each_part(PART {
        const Floats::Part x = a.part[i], y = b.part[i], z = c.part[i];
        const TwoDoubles low = sum_to_odd(TwoDoubles{x[0], x[1]} * TwoDoubles{y[0], y[1]}, TwoDoubles{z[0], z[1]});
        const TwoDoubles high = sum_to_odd(TwoDoubles{x[2], x[3]} * TwoDoubles{y[2], y[3]}, TwoDoubles{z[2], z[3]});
        c.part[i] = Floats::Part{float(low[0]), float(low[1]), float(high[0]), float(high[1])};
    });
#endif
    return c;
}

// One number, rounded once. (Inlined: where there is no instruction it is a call of the C library.)
[[gnu::always_inline]] inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
[[gnu::always_inline]] inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }

// The sum of the lanes: halves first, whatever the registers are.
template <class Number>
[[gnu::always_inline]] inline Number total(Vector<Number> x) {
    Number lanes[Vector<Number>::LANES];
    x.store(lanes);
    for (int half = Vector<Number>::LANES / 2; half > 0; half /= 2)
        for (int k = 0; k < half; k++) lanes[k] = lanes[k] + lanes[k + half];
    return lanes[0];
}

}  // namespace ISA
