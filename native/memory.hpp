// Room to work in: zeros that begin where no vector straddles two cache lines.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

namespace ISA {

template <class Number>
class Room {
public:
    explicit Room(size_t size) {
        const size_t bytes = (size * sizeof(Number) + 63) / 64 * 64 + 64;
        void* memory = std::aligned_alloc(64, bytes);
        if (!memory) throw std::bad_alloc();
        std::memset(memory, 0, bytes);
        data_ = static_cast<Number*>(memory);
    }
    ~Room() { std::free(data_); }
    Room(const Room&) = delete;
    Number* data() { return data_; }
    const Number* data() const { return data_; }
    Number& operator[](size_t at) { return data_[at]; }

private:
    Number* data_;
};

}  // namespace ISA
