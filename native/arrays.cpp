#include "arrays.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <new>

#include "threads.hpp"

namespace {

// The kind of the numbers of a buffer, or 0 if it is none of ours or in the wrong byte order.
char kind_of_format(const char* format) {
    if (!format) return 'u';                                           // bytes
    if (*format == '@' || *format == '=' || *format == '<') format++;  // we run on little-endian machines only
    if (std::strlen(format) != 1) return 0;
    if (std::strchr("bhilqn", *format)) return 'i';
    if (std::strchr("BHILQN", *format)) return 'u';
    if (std::strchr("fd", *format)) return 'f';
    return *format == '?' ? '?' : 0;
}

const char* name_of(char kind, int64_t bytes) {
    if (kind == '?') return "bool";
    if (kind == 'f') return bytes == 4 ? "float32" : "float64";
    if (kind == 'u') return bytes == 1 ? "uint8" : bytes == 2 ? "uint16" : bytes == 4 ? "uint32" : "uint64";
    return bytes == 1 ? "int8" : bytes == 2 ? "int16" : bytes == 4 ? "int32" : "int64";
}

constexpr int64_t BLOCK = 1 << 18;  // numbers that a thread looks at

template <class Number>
void require_numbers(const Number* numbers, int64_t count, int64_t first, int64_t stop, const char* name,
                     int64_t threads) {
    Work work((count + BLOCK - 1) / BLOCK);
    std::atomic<bool> fine = true;
    run(work, threads, [&] {
        for (int64_t piece; (piece = work.take()) >= 0;) {
            bool good = true;
            for (int64_t i = piece * BLOCK; i < std::min(count, (piece + 1) * BLOCK); i++)
                good &= numbers[i] >= first && numbers[i] < stop;
            if (!good) {
                fine = false;
                work.stop();
            }
        }
    });
    require(fine, std::string(name) + " holds numbers that are not in " + std::to_string(first) + " to " +
                      std::to_string(stop - 1));
}

}  // namespace

static_assert(std::endian::native == std::endian::little);

Loan::Loan(nb::handle object, const char* name, bool writable, char kind, int64_t bytes, int dimensions) {
    const std::string label = name;
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0))) {
        PyErr_Clear();
        throw nb::type_error(
            (label + " must be " + (writable ? "a writable" : "an") + " array of numbers").c_str());
    }
    std::string wrong;
    bool type = false;
    if (kind_of_format(view_.format) != kind || view_.itemsize != bytes) {
        wrong = " must be of dtype " + std::string(name_of(kind, bytes));
        type = true;
    } else if (view_.ndim != dimensions) {
        wrong = " must have " + std::to_string(dimensions) + (dimensions == 1 ? " dimension" : " dimensions") +
                ", not " + std::to_string(view_.ndim);
    } else if (!PyBuffer_IsContiguous(&view_, 'C')) {
        wrong = " must be contiguous (numpy.ascontiguousarray)";
    } else if (reinterpret_cast<uintptr_t>(view_.buf) % uintptr_t(bytes) != 0 && view_.len != 0) {
        wrong = " must be aligned in memory (numpy.require(..., requirements='A'))";
    }
    if (wrong.empty()) return;
    PyBuffer_Release(&view_);
    if (type) throw nb::type_error((label + wrong).c_str());
    throw nb::value_error((label + wrong).c_str());
}

Loan::~Loan() {
    if (view_.obj) PyBuffer_Release(&view_);
}

int64_t bytes_of_item(nb::handle object) {
    Py_buffer view;
    if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_STRIDES)) {
        PyErr_Clear();
        return 0;
    }
    const int64_t bytes = view.itemsize;
    PyBuffer_Release(&view);
    return bytes;
}

void require(bool fine, const std::string& what) {
    if (!fine) throw nb::value_error(what.c_str());
}

void require_size(double number, const char* name) {
    require(number >= 1e-300 && number <= 1e300, std::string(name) + " must be from 1e-300 to 1e300");
}

void require_length(int64_t length, int64_t expected, const char* name) {
    require(length == expected, std::string(name) + " must have length " + std::to_string(expected) + ", not " +
                                    std::to_string(length));
}

void require_range(const int32_t* numbers, int64_t count, int64_t first, int64_t stop, const char* name,
                   int64_t threads) {
    require_numbers(numbers, count, first, stop, name, threads);
}

void require_range(const int64_t* numbers, int64_t count, int64_t first, int64_t stop, const char* name,
                   int64_t threads) {
    require_numbers(numbers, count, first, stop, name, threads);
}

void require_starts(const Array<const int64_t>& start, int64_t end, const char* name) {
    const int64_t* at = start.data();
    const int64_t count = start.shape(0);
    require(count > 0 && at[0] == 0 && at[count - 1] == end && std::is_sorted(at, at + count),
            std::string(name) + " must begin with 0, never fall, and end with the number of rows");
}

nb::object new_array(const char* dtype, const int64_t* shape, int dimensions, void** data) {
    // NumPy's own memory (zeros come lazily from the system), from the first multiple of 64 bytes on.
    nb::object numpy = nb::module_::import_("numpy");
    nb::object type = numpy.attr("dtype")(dtype);
    int64_t bytes = nb::cast<int64_t>(type.attr("itemsize"));
    nb::list sizes;
    for (int axis = 0; axis < dimensions; axis++) {
        require(shape[axis] >= 0, "a length must not be negative");
        if (__builtin_mul_overflow(bytes, shape[axis], &bytes)) throw std::bad_alloc();
        sizes.append(shape[axis]);
    }
    if (__builtin_add_overflow(bytes, 64, &bytes)) throw std::bad_alloc();
    nb::object memory = numpy.attr("zeros")(bytes, "uint8");
    const Array<uint8_t> whole(memory, "memory");
    const int64_t first = -reinterpret_cast<intptr_t>(whole.data()) & 63;
    *data = whole.data() + first;
    nb::object part =
        memory.attr("__getitem__")(nb::slice(nb::int_(first), nb::int_(first + bytes - 64), nb::none()));
    return part.attr("view")(type).attr("reshape")(nb::tuple(sizes));
}
