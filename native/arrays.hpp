// The border: what Python gives becomes a checked array, or a TypeError or ValueError that names the argument.
//
//     Array<const float, 2> items = given<float, 2>(items_, "items");
//
// Results are new arrays that a kernel fills: a call that is interrupted leaves nothing half done.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace nb = nanobind;
using namespace nb::literals;

// Memory of a Python object, lent for as long as this lives. To be destroyed while Python's lock is held.
class Loan {
public:
    Loan(nb::handle object, const char* name, bool writable, char kind, int64_t bytes, int dimensions);
    Loan(Loan&& other) noexcept : view_(other.view_) { other.view_.obj = nullptr; }
    Loan(const Loan&) = delete;
    ~Loan();
    void* data() const { return view_.buf; }
    int64_t shape(int axis) const { return view_.shape[axis]; }

private:
    Py_buffer view_;
};

// 'i' whole numbers, 'u' unsigned ones, 'f' floating point, '?' truth values.
template <class Number>
constexpr char kind_of() {
    using Plain = std::remove_const_t<Number>;
    if (std::is_same_v<Plain, bool>) return '?';
    if (std::is_floating_point_v<Plain>) return 'f';
    return std::is_signed_v<Plain> ? 'i' : 'u';
}

template <class Number, int dimensions = 1>
class Array {
public:
    Array(nb::handle object, const char* name)
        : loan_(object, name, !std::is_const_v<Number>, kind_of<Number>(), sizeof(Number), dimensions) {}
    Number* data() const { return static_cast<Number*>(loan_.data()); }
    int64_t shape(int axis) const { return loan_.shape(axis); }
    int64_t size() const {
        int64_t product = 1;
        for (int axis = 0; axis < dimensions; axis++) product *= shape(axis);
        return product;
    }

private:
    Loan loan_;
};

// To be read.
template <class Number, int dimensions = 1>
Array<const Number, dimensions> given(nb::handle object, const char* name) {
    return {object, name};
}

// To be written to, in place.
template <class Number, int dimensions = 1>
Array<Number, dimensions> changed(nb::handle object, const char* name) {
    return {object, name};
}

// The bytes of one number of an array; 0 if it is none.
int64_t bytes_of_item(nb::handle object);

// Otherwise a ValueError.
void require(bool fine, const std::string& what);
// A unit or a grid: every bound that a parameter may have, and every noise, leads to one within these limits.
void require_size(double number, const char* name);
// The length of an array's first axis.
void require_length(int64_t length, int64_t expected, const char* name);
// Every number is in first : stop. In threads, without Python's lock.
void require_range(const int32_t* numbers, int64_t count, int64_t first, int64_t stop, const char* name,
                   int64_t threads);
void require_range(const int64_t* numbers, int64_t count, int64_t first, int64_t stop, const char* name,
                   int64_t threads);
// start[0] = 0 <= start[1] <= ... <= start[-1] = end.
void require_starts(const Array<const int64_t>& start, int64_t end, const char* name);

// A new NumPy array of zeros, its memory, and Python's object for it. Begins at a multiple of 64 bytes.
nb::object new_array(const char* dtype, const int64_t* shape, int dimensions, void** data);

template <class Number>
constexpr const char* dtype_of() {
    using Plain = std::remove_const_t<Number>;
    if (std::is_same_v<Plain, bool>) return "bool";
    if (std::is_same_v<Plain, float>) return "float32";
    if (std::is_same_v<Plain, double>) return "float64";
    constexpr bool is_signed = std::is_signed_v<Plain>;
    switch (sizeof(Plain)) {
        case 1:
            return is_signed ? "int8" : "uint8";
        case 2:
            return is_signed ? "int16" : "uint16";
        case 4:
            return is_signed ? "int32" : "uint32";
        default:
            return is_signed ? "int64" : "uint64";
    }
}

template <class Number>
struct Result {
    nb::object object;
    Number* data;

    template <class... Sizes>
    explicit Result(Sizes... sizes) {
        const int64_t shape[] = {int64_t(sizes)...};
        void* memory;
        object = new_array(dtype_of<Number>(), shape, sizeof...(sizes), &memory);
        data = static_cast<Number*>(memory);
    }
};
