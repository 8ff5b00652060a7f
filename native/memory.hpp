// Room to work in: zeros that begin where no vector straddles two cache lines.
//
// UNTOUCHED room is not filled with zeros: what is never written to takes no memory.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

namespace ISA {

constexpr struct Untouched {
} UNTOUCHED;

template <class Number>
class Room {
public:
    explicit Room(size_t size) : Room(size, UNTOUCHED) { std::memset(data_, 0, bytes_of(size)); }
    Room(size_t size, Untouched) {
        void* memory = std::aligned_alloc(64, bytes_of(size));
        if (!memory) throw std::bad_alloc();
        data_ = static_cast<Number*>(memory);
    }
    ~Room() { std::free(data_); }
    Room(const Room&) = delete;
    Number* data() { return data_; }
    const Number* data() const { return data_; }
    Number& operator[](size_t at) { return data_[at]; }

private:
    static size_t bytes_of(size_t size) { return (size * sizeof(Number) + 63) / 64 * 64 + 64; }

    Number* data_;
};

}  // namespace ISA
