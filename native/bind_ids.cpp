// Ids of any kind as numbers from 0 on.
//
//     number_span    code of x = how many different numbers below x occur, by a table of all of low : low + span
//     find_hashed    code of x = the position of x among the distinct ones, by a hash table that is half empty
//
// Whether two rows belong to the same user decides what is bounded: numbers are compared whole (64 bits), and a
// number that is not there is an error, never another's code. Codes are below 2^31.
#include <algorithm>
#include <atomic>
#include <bit>
#include <vector>

#include "arrays.hpp"
#include "threads.hpp"

namespace {

constexpr int64_t AT_ONCE = 1 << 16, MOST = (int64_t(1) << 31) - 1;

// Numbers that lie in several pieces of memory, as one column. x - low for x = low, low + 1, ...: 0, 1, ...
template <class Number>
struct Pieces {
    std::vector<Array<const Number>> arrays;
    struct Part {
        const Number* data;
        int64_t count, first;  // the number of its first row
    };
    std::vector<Part> parts;  // at most AT_ONCE rows each
    int64_t rows = 0;

    explicit Pieces(const nb::list& pieces) {
        for (nb::handle piece : pieces) {
            const auto& array = arrays.emplace_back(piece, "pieces");
            for (int64_t at = 0; at < array.shape(0); at += AT_ONCE)
                parts.push_back({array.data() + at, std::min(AT_ONCE, array.shape(0) - at), rows + at});
            rows += array.shape(0);
        }
        require(rows <= MOST, "there must be fewer than 2^31 rows");
    }
    template <class Function>
    void each(int64_t threads, Function of_part) const {
        Work work(int64_t(parts.size()));
        run(work, threads, [&] {
            for (int64_t piece; (piece = work.take()) >= 0;) of_part(parts[size_t(piece)]);
        });
    }
};

template <class Number>
nb::object number_span(const nb::list& pieces_, uint64_t low, int64_t span, int64_t threads) {
    const Pieces<Number> pieces(pieces_);
    require(span >= 0 && span <= (int64_t(1) << 34), "span must be from 0 to 2^34");
    const Result<uint8_t> present(span);
    std::atomic<bool> fine = true;
    pieces.each(threads, [&](const auto& part) {
        for (int64_t row = 0; row < part.count; row++) {
            const uint64_t place = uint64_t(part.data[row]) - low;
            if (place < uint64_t(span))
                __atomic_store_n(&present.data[place], 1, __ATOMIC_RELAXED);  // (libc++ has no atomic_ref)
            else
                fine.store(false, std::memory_order_relaxed);
        }
    });
    require(fine, "pieces hold numbers outside of low to low + span - 1");
    const Result<int32_t> position(span);
    int32_t distinct = 0;  // at most as many as there are rows
    in_order(span, [&](int64_t place) {
        position.data[place] = distinct;
        distinct += present.data[place];
    });
    const Result<uint64_t> found(distinct);
    in_order(span, [&](int64_t place) {
        if (present.data[place]) found.data[position.data[place]] = low + uint64_t(place);
    });
    const Result<int32_t> codes(pieces.rows);
    pieces.each(threads, [&](const auto& part) {
        for (int64_t row = 0; row < part.count; row++) {
            const uint64_t place = uint64_t(part.data[row]) - low;
            codes.data[part.first + row] = position.data[std::min(place, uint64_t(span - 1))];
        }
    });
    return nb::make_tuple(found.object, codes.object);
}

// Where to begin looking for a number in a table whose size is a power of two.
uint64_t slot_of(uint64_t number, uint64_t slots) {
    return (number * 0x9E3779B97F4A7C15 >> 32) & (slots - 1);
}

nb::object find_hashed(nb::handle ids_, nb::handle distinct_, int64_t threads) {
    const auto ids = given<uint64_t>(ids_, "ids"), distinct = given<uint64_t>(distinct_, "distinct");
    const int64_t rows = ids.shape(0), names = distinct.shape(0);
    require(rows <= MOST && names <= MOST, "there must be fewer than 2^31 rows");
    const uint64_t slots = std::bit_ceil(uint64_t(2 * names + 1));
    const Result<int32_t> table(slots), codes(rows);  // position + 1, or 0
    std::atomic<bool> fine = true;
    Work work((rows + AT_ONCE - 1) / AT_ONCE);
    in_order(names, [&, name = distinct.data()](int64_t position) {
        uint64_t slot = slot_of(name[position], slots);
        while (table.data[slot]) slot = (slot + 1) & (slots - 1);
        table.data[slot] = int32_t(position + 1);
    });
    run(work, threads, [&] {
        const uint64_t* name = distinct.data();
        for (int64_t piece; (piece = work.take()) >= 0;)
            for (int64_t row = piece * AT_ONCE; row < std::min(rows, (piece + 1) * AT_ONCE); row++) {
                const uint64_t id = ids.data()[row];
                uint64_t slot = slot_of(id, slots);
                while (table.data[slot] && name[table.data[slot] - 1] != id) slot = (slot + 1) & (slots - 1);
                if (!table.data[slot]) fine.store(false, std::memory_order_relaxed);
                codes.data[row] = table.data[slot] - 1;
            }
    });
    require(fine, "ids holds a number that is not in distinct");
    return codes.object;
}

}  // namespace

void bind_ids(nb::module_& module) {
    module.def(
        "number_span",
        [](const nb::list& pieces, uint64_t low, int64_t span, int64_t threads) {
            const bool is_short = nb::len(pieces) && bytes_of_item(pieces[0]) == 4;
            return is_short ? number_span<int32_t>(pieces, low, span, threads)
                            : number_span<uint64_t>(pieces, low, span, threads);
        },
        "pieces"_a, "low"_a, "span"_a, "threads"_a);
    module.def("find_hashed", &find_hashed, "ids"_a, "distinct"_a, "threads"_a);
}
