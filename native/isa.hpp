// Which instruction set the kernels use: chosen when the module is loaded.
//
// A file that is compiled once per set puts its code into `namespace ISA` (ISA is portable, avx2 or avx512
// there) and ends with a table of its entry points; `Variants` picks the table. Headers that such files include
// keep inline functions and templates in `namespace ISA` too. Otherwise the linker could take the copy that was
// compiled for AVX-512 and use it everywhere; a test looks at the symbols.
#pragma once

#include <string>
#include <vector>

enum class Isa { portable, avx2, avx512 };

// The one in use. At first APPORTION_ISA, or the best that the processor has.
Isa isa();
const char* isa_name();
// Those that this processor has.
std::vector<std::string> isas();
// Use another; std::invalid_argument if this processor does not have it.
void use_isa(const std::string& name);

// Declares `name`, a table of type Kernels, in the namespace of every instruction set, and the choice among them,
// `name##_kernels()`.
#ifdef APPORTION_X86
#define DECLARE_KERNELS(Kernels, name)                           \
    namespace portable {                                         \
    extern const Kernels name;                                   \
    }                                                            \
    namespace avx2 {                                             \
    extern const Kernels name;                                   \
    }                                                            \
    namespace avx512 {                                           \
    extern const Kernels name;                                   \
    }                                                            \
    static inline const Kernels& name##_kernels() {              \
        if (isa() == Isa::avx512) return avx512::name;           \
        return isa() == Isa::avx2 ? avx2::name : portable::name; \
    }
#else
#define DECLARE_KERNELS(Kernels, name)              \
    namespace portable {                            \
    extern const Kernels name;                      \
    }                                               \
    static inline const Kernels& name##_kernels() { \
        return portable::name;                      \
    }
#endif
