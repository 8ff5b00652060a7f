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
        c.part[i] =
            (Doubles::Part)vfmaq_f64((float64x2_t)c.part[i], (float64x2_t)a.part[i], (float64x2_t)b.part[i]);
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
    // Toward the exact sum: away from zero if the error has the sign of the sum, else toward it.
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
[[gnu::always_inline]] inline float fused(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
[[gnu::always_inline]] inline double fused(double a, double b, double c) {
    return __builtin_fma(a, b, c);
}

// The sum of the lanes: halves first, whatever the registers are.
template <class Number>
[[gnu::always_inline]] inline Number total(Vector<Number> x) {
    Number lanes[Vector<Number>::LANES];
    x.store(lanes);
    for (int half = Vector<Number>::LANES / 2; half > 0; half /= 2)
        for (int k = 0; k < half; k++) lanes[k] = lanes[k] + lanes[k + half];
    return lanes[0];
}

// Sixteen short numbers as floats. (GCC 12 makes three instructions of each that this needs.)
[[gnu::always_inline]] inline Floats load_shorts(const int16_t* from) {
    Floats out;
#if defined(__AVX512F__)
    out.part[0] = (Floats::Part)_mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i*)from)));
#elif defined(__AVX2__)
    each_part(PART {
        const __m128i shorts = _mm_loadu_si128((const __m128i*)(from + i * Floats::IN_PART));
        out.part[i] = (Floats::Part)_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(shorts));
    });
#else
    each_part(PART {
        const int16_t* at = from + i * Floats::IN_PART;
        out.part[i] = Floats::Part{float(at[0]), float(at[1]), float(at[2]), float(at[3])};
    });
#endif
    return out;
}

// Toward zero; the numbers must be below 2^31 in size.
[[gnu::always_inline]] inline Words truncated(Floats x) {
    Words out;
    each_part(PART { out.part[i] = __builtin_convertvector(x.part[i], Words::Part); });
    return out;
}

// Eight floats as doubles, and back.
[[gnu::always_inline]] inline Doubles load_doubles(const float* from) {
    Doubles out;
    typedef float Half __attribute__((vector_size(REGISTER / 2)));
    each_part(PART {
        Half half;
        std::memcpy(&half, from + i * Doubles::IN_PART, sizeof half);
        out.part[i] = __builtin_convertvector(half, Doubles::Part);
    });
    return out;
}

// total + a_2k b_2k + a_2k+1 b_2k+1, a and b being pairs of 16-bit numbers.
[[gnu::always_inline]] inline Words add_pairs(Words a, Words b, Words total) {
#if defined(__AVX512VNNI__)
    total.part[0] =
        (Words::Part)_mm512_dpwssd_epi32((__m512i)total.part[0], (__m512i)a.part[0], (__m512i)b.part[0]);
#elif defined(__AVX2__)
    each_part(PART { total.part[i] += (Words::Part)_mm256_madd_epi16((__m256i)a.part[i], (__m256i)b.part[i]); });
#elif defined(__x86_64__)
    each_part(PART { total.part[i] += (Words::Part)_mm_madd_epi16((__m128i)a.part[i], (__m128i)b.part[i]); });
#else
    total = total + ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
    return total;
}

// to[k] += x_k, sixteen of them.
[[gnu::always_inline]] inline void add_to(int64_t* to, Words x) {
    typedef int32_t Half __attribute__((vector_size(REGISTER / 2)));
    int32_t words[Words::LANES];
    x.store(words);
    each_part(PART {
        for (int half = 0; half < 2; half++) {
            const int at = i * Words::IN_PART + half * Longs::IN_PART;
            Half few;
            Longs::Part sum;
            std::memcpy(&few, words + at, sizeof few);
            std::memcpy(&sum, to + at, sizeof sum);
            sum += __builtin_convertvector(few, Longs::Part);
            std::memcpy(to + at, &sum, sizeof sum);
        }
    });
}

// The sums of eight vectors, each made as `total` makes it.
[[gnu::always_inline]] inline void totals(const Floats* x, float* sums) {
#if defined(__AVX2__)
    __m256 eight[8], two[4];
    for (int i = 0; i < 8; i++) {
#if defined(__AVX512F__)
        const __m512 whole = (__m512)x[i].part[0];
        eight[i] = _mm256_add_ps(_mm512_castps512_ps256(whole), _mm512_extractf32x8_ps(whole, 1));
#else
        eight[i] = _mm256_add_ps((__m256)x[i].part[0], (__m256)x[i].part[1]);
#endif
    }
    for (int i = 0; i < 4; i++) {  // lane k and k + 4, of two vectors
        const __m256 a = eight[i], b = eight[i + 4];
        two[i] = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    }
    // Lane k and k + 2: now the vectors are 0 1 | 4 5 and 2 3 | 6 7. Then the last two.
    const __m256 low =
        _mm256_add_ps(_mm256_shuffle_ps(two[0], two[1], 0x44), _mm256_shuffle_ps(two[0], two[1], 0xEE));
    const __m256 high =
        _mm256_add_ps(_mm256_shuffle_ps(two[2], two[3], 0x44), _mm256_shuffle_ps(two[2], two[3], 0xEE));
    _mm256_storeu_ps(sums, _mm256_add_ps(_mm256_shuffle_ps(low, high, 0x88), _mm256_shuffle_ps(low, high, 0xDD)));
#else
    for (int i = 0; i < 8; i++) sums[i] = total(x[i]);
#endif
}

}  // namespace ISA
