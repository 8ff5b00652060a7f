#include "isa.hpp"

#include <atomic>
#include <cstdlib>
#include <stdexcept>

#ifdef APPORTION_X86
#include <cpuid.h>
#endif

namespace {

constexpr const char* NAMES[] = {"portable", "avx2", "avx512"};

// What the processor has and the system saves. (__builtin_cpu_supports does not link with every compiler.)
bool has(Isa set) {
    if (set == Isa::portable) return true;
#ifdef APPORTION_X86
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return false;
    const bool fma = c & bit_FMA;
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    const bool avx2 = fma && (b & bit_AVX2) && (low & 0x6) == 0x6;
    if (set == Isa::avx2) return avx2;
    constexpr unsigned needed = bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ;
    return avx2 && (b & needed) == needed && (c & bit_AVX512VNNI) && (low & 0xE6) == 0xE6;
#else
    return false;
#endif
}

Isa find(const std::string& name) {
    for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512}) {
        if (name != NAMES[int(set)]) continue;
        if (has(set)) return set;
        throw std::invalid_argument("the instruction set " + name + " is not on this processor; it has: " + [] {
            std::string all;
            for (const std::string& each : isas()) all += " " + each;
            return all.substr(1);
        }());
    }
    throw std::invalid_argument("an instruction set is portable, avx2 or avx512, not '" + name + "'");
}

Isa first() {
    const char* asked = std::getenv("APPORTION_ISA");
    if (asked && *asked) return find(asked);
    return has(Isa::avx512) ? Isa::avx512 : has(Isa::avx2) ? Isa::avx2 : Isa::portable;
}

std::atomic<Isa>& chosen() {
    static std::atomic<Isa> set = first();
    return set;
}

}  // namespace

Isa isa() {
    return chosen();
}

const char* isa_name() {
    return NAMES[int(isa())];
}

std::vector<std::string> isas() {
    std::vector<std::string> all;
    for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512})
        if (has(set)) all.push_back(NAMES[int(set)]);
    return all;
}

void use_isa(const std::string& name) {
    chosen() = find(name);
}
