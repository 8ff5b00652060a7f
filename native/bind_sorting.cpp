// Counting sorts: rows in the order of their keys, those of one key in the order they were in.
//
//     start[k] = number of rows with a key below k;   row r goes to start[key_r] + number of rows s < r with key_s
//     = key_r
//
// Rows are cut into blocks, one for each thread. Every block counts its keys; then it is known where each block's
// rows of each key begin, and all blocks place theirs side by side: what comes out does not depend on the blocks.
//
// That a user's rows are together, and in which order, decides what is bounded: keys are checked while they are
// counted, and each row is written exactly once, since the places of the blocks are disjoint by construction.
// Places and counts are at most the number of rows, below 2^31.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "threads.hpp"

namespace {

constexpr int64_t AT_ONCE = 1 << 15, MOST = (int64_t(1) << 31) - 1;

// Two columns as one: what takes long is to reach a place far away, not to write there.
constexpr uint64_t pair(int32_t number, float value) {
    return uint64_t(uint32_t(number)) | uint64_t(std::bit_cast<uint32_t>(value)) << 32;
}

// A column, or one half of pairs.
struct Column {
    const char* data;
    int64_t bytes;
    int32_t operator[](int64_t row) const {
        int32_t number;
        std::memcpy(&number, data + row * bytes, sizeof number);
        return number;
    }
};

template <class Number>
Column column_of(const Number* data) {
    return {reinterpret_cast<const char*>(data), sizeof(Number)};
}

// The rows in as many blocks as there are threads.
struct Blocks {
    int64_t rows, threads, count;

    Blocks(int64_t rows, int64_t threads)
        : rows(rows), threads(threads), count(std::clamp<int64_t>(threads, 1, std::max<int64_t>(rows, 1))) {}
    int64_t begin(int64_t block) const { return rows * block / count; }

    // work(block, row) for all rows, the blocks side by side; each block's rows in order.
    template <class Function>
    void each(Function work) const {
        Work blocks(count);
        run(blocks, threads, [&] {
            for (int64_t block; (block = blocks.take()) >= 0;) {
                auto one = work(block);
                for (int64_t first = begin(block); first < begin(block + 1) && !blocks.stopped();
                     first += AT_ONCE) {
                    const int64_t stop = std::min(first + AT_ONCE, begin(block + 1));
                    for (int64_t row = first; row < stop; row++) one(row);
                }
            }
        });
    }
};

// Where each key begins, and where each block places its next row of each key.
class Places {
public:
    Result<int64_t> start;

    Places(Column key, int64_t keys, const Blocks& blocks)
        : start(keys + 1), keys_(keys), next_(blocks.count * keys) {
        std::atomic<bool> fine = true;
        blocks.each([&](int64_t block) {
            return [&, counts = next_.data() + block * keys](int64_t row) {
                const uint32_t k = uint32_t(key[row]);
                if (k < uint64_t(keys))
                    counts[k]++;
                else
                    fine.store(false, std::memory_order_relaxed);
            };
        });
        require(fine, "key holds numbers that are not in 0 to keys - 1");
        int64_t before = 0;
        in_order(keys, [&](int64_t k) {
            start.data[k] = before;
            for (int64_t block = 0; block < blocks.count; block++)
                before += std::exchange(next_[size_t(block * keys + k)], before);
        });
        start.data[keys] = before;
    }

    // The next places of a block's rows, by key.
    int64_t* of_block(int64_t block) { return next_.data() + block * keys_; }

private:
    int64_t keys_;
    std::vector<int64_t> next_;
};

// out[place of row] = item(block)(row) for all rows.
template <class Item, class Items>
void place_rows(Column key, Places& places, const Blocks& blocks, Item* out, Items items) {
    blocks.each([&](int64_t block) {
        return [key, out, next = places.of_block(block), item = items(block)](int64_t row) mutable {
            out[next[key[row]]++] = item(row);
        };
    });
}

// The group of a row, group g having the rows start[g] : start[g + 1]; for rows one after the other.
struct GroupOf {
    const int64_t* start;
    int32_t group;

    GroupOf(const int64_t* start, int64_t groups, int64_t row)
        : start(start), group(int32_t(std::upper_bound(start, start + groups + 1, row) - start - 1)) {}
    int32_t operator()(int64_t row) {
        while (start[group + 1] <= row) group++;
        return group;
    }
};

nb::object split(const Result<uint64_t>& pairs, Places& places, const Blocks& blocks) {
    const Result<int32_t> numbers(blocks.rows);
    const Result<float> values(blocks.rows);
    blocks.each([&](int64_t) {
        return [&](int64_t row) {
            numbers.data[row] = int32_t(uint32_t(pairs.data[row]));
            values.data[row] = std::bit_cast<float>(uint32_t(pairs.data[row] >> 32));
        };
    });
    return nb::make_tuple(places.start.object, numbers.object, values.object);
}

// A column of keys, as many as there are, and a column of values or none.
struct Given {
    Array<const int32_t> key;
    int64_t keys;
    std::optional<Array<const float>> value;
    Blocks blocks;

    Given(nb::handle key_, int64_t keys, nb::handle value_, int64_t threads)
        : key(key_, "key"), keys(keys), blocks(key.shape(0), threads) {
        require(keys >= 0 && keys <= MOST && key.shape(0) <= MOST, "there must be fewer than 2^31 keys and rows");
        if (value_.is_none()) return;
        value.emplace(value_, "value");
        require_length(value->shape(0), key.shape(0), "value");
    }
    Column keys_column() const { return column_of(key.data()); }
};

nb::object starts(nb::handle key, int64_t keys, int64_t threads) {
    const Given all(key, keys, nb::none(), threads);
    return Places(all.keys_column(), keys, all.blocks).start.object;
}

// `other`: a column, or None for the numbers of the rows.
nb::object group(nb::handle key, int64_t keys, nb::handle other_, nb::handle value, int64_t threads) {
    const Given all(key, keys, value, threads);
    std::optional<Array<const int32_t>> other;
    if (!other_.is_none()) {
        other.emplace(other_, "other");
        require_length(other->shape(0), all.blocks.rows, "other");
    }
    const int32_t* numbers = other ? other->data() : nullptr;
    const float* values = all.value ? all.value->data() : nullptr;
    Places places(all.keys_column(), keys, all.blocks);
    auto number = [numbers](int64_t row) { return numbers ? numbers[row] : int32_t(row); };
    if (values) {
        const Result<uint64_t> pairs(all.blocks.rows);
        place_rows(all.keys_column(), places, all.blocks, pairs.data,
                   [&](int64_t) { return [=](int64_t row) { return pair(number(row), values[row]); }; });
        return split(pairs, places, all.blocks);
    }
    const Result<int32_t> placed(all.blocks.rows);
    place_rows(all.keys_column(), places, all.blocks, placed.data, [&](int64_t) { return number; });
    return nb::make_tuple(places.start.object, placed.object, nb::none());
}

// Rows that are grouped already, by `start`, are grouped by their keys; keys and values from wherever they lie.
nb::object turned(const int64_t* start, int64_t groups, Column key, int64_t keys, std::optional<Column> value,
                  const Blocks& blocks) {
    Places places(key, keys, blocks);
    if (value) {
        const Result<uint64_t> pairs(blocks.rows);
        place_rows(key, places, blocks, pairs.data, [&](int64_t block) {
            return [value = *value, group = GroupOf(start, groups, blocks.begin(block))](int64_t row) mutable {
                return pair(group(row), std::bit_cast<float>(value[row]));
            };
        });
        return split(pairs, places, blocks);
    }
    const Result<int32_t> placed(blocks.rows);
    place_rows(key, places, blocks, placed.data,
               [&](int64_t block) { return GroupOf(start, groups, blocks.begin(block)); });
    return nb::make_tuple(places.start.object, placed.object, nb::none());
}

nb::object turn(nb::handle start_, nb::handle key, int64_t keys, nb::handle value, int64_t threads) {
    const Given all(key, keys, value, threads);
    const auto start = given<int64_t>(start_, "start");
    require_starts(start, all.blocks.rows, "start");
    require(start.shape(0) <= MOST, "there must be fewer than 2^31 groups");
    return turned(start.data(), start.shape(0) - 1, all.keys_column(), keys,
                  all.value ? std::optional(column_of(all.value->data())) : std::nullopt, all.blocks);
}

// Grouped by the first key, and that by the second: the pairs between are never split.
nb::object group_twice(nb::handle first, int64_t firsts, nb::handle second, int64_t seconds, nb::handle value,
                       int64_t threads) {
    const Given all(first, firsts, value, threads);
    const auto other = given<int32_t>(second, "second");
    require_length(other.shape(0), all.blocks.rows, "second");
    require(all.value.has_value(), "value must be an array");
    require(seconds >= 0 && seconds <= MOST, "there must be fewer than 2^31 keys");
    Places places(all.keys_column(), firsts, all.blocks);
    const Result<uint64_t> pairs(all.blocks.rows);
    place_rows(all.keys_column(), places, all.blocks, pairs.data, [&](int64_t) {
        return [numbers = other.data(), values = all.value->data()](int64_t row) {
            return pair(numbers[row], values[row]);
        };
    });
    const char* data = reinterpret_cast<const char*>(pairs.data);
    return turned(places.start.data, firsts, {data, 8}, seconds, Column{data + 4, 8}, all.blocks);  // little-endian
}

nb::object number_rows(nb::handle start_, int64_t threads) {
    const auto start = given<int64_t>(start_, "start");
    require(start.shape(0) > 0, "start must not be empty");
    const int64_t rows = start.data()[start.shape(0) - 1];
    require_starts(start, rows, "start");
    require(start.shape(0) <= MOST && rows <= MOST, "there must be fewer than 2^31 groups and rows");
    const Result<int32_t> groups(rows);
    const Blocks blocks(rows, threads);
    blocks.each([&](int64_t block) {
        return [out = groups.data, group = GroupOf(start.data(), start.shape(0) - 1, blocks.begin(block))](
                   int64_t row) mutable { out[row] = group(row); };
    });
    return groups.object;
}

// Whether no number is below the one before it.
template <class Number>
bool never_falls(nb::handle values_, int64_t threads) {
    const auto values = given<Number>(values_, "values");
    const int64_t rows = values.shape(0);
    Work work((rows + AT_ONCE - 1) / AT_ONCE);
    std::atomic<bool> rises = true;
    run(work, threads, [&] {
        for (int64_t piece; (piece = work.take()) >= 0;) {
            bool falls = false;
            const int64_t stop = std::min(rows, (piece + 1) * AT_ONCE);
            for (int64_t row = std::max<int64_t>(1, piece * AT_ONCE); row < stop; row++)
                falls |= values.data()[row] < values.data()[row - 1];
            if (falls) {
                rises = false;
                work.stop();
            }
        }
    });
    return rises;
}

// Whether in each group all numbers are above the one before.
template <class Number>
bool rises_in_groups(nb::handle values_, nb::handle start_, int64_t threads) {
    const auto values = given<Number>(values_, "values");
    const auto start = given<int64_t>(start_, "start");
    require_starts(start, values.shape(0), "start");
    const Blocks blocks(values.shape(0), threads);
    std::atomic<bool> rises = true;
    blocks.each([&](int64_t block) {
        GroupOf group(start.data(), start.shape(0) - 1, blocks.begin(block));
        return [&, group, number = values.data()](int64_t row) mutable {
            if (start.data()[group(row)] < row && number[row] <= number[row - 1])
                rises.store(false, std::memory_order_relaxed);
        };
    });
    return rises;
}

}  // namespace

void bind_sorting(nb::module_& module) {
    module.def("starts", &starts, "key"_a, "keys"_a, "threads"_a);
    module.def("group", &group, "key"_a, "keys"_a, "other"_a.none(), "value"_a.none(), "threads"_a);
    module.def("turn", &turn, "start"_a, "key"_a, "keys"_a, "value"_a.none(), "threads"_a);
    module.def("group_twice", &group_twice, "first"_a, "firsts"_a, "second"_a, "seconds"_a, "value"_a, "threads"_a);
    module.def("number_rows", &number_rows, "start"_a, "threads"_a);
    module.def(
        "never_falls",
        [](nb::handle values, int64_t threads) {
            return bytes_of_item(values) == 4 ? never_falls<int32_t>(values, threads)
                                              : never_falls<int64_t>(values, threads);
        },
        "values"_a, "threads"_a);
    module.def(
        "rises_in_groups",
        [](nb::handle values, nb::handle start, int64_t threads) {
            return bytes_of_item(values) == 4 ? rises_in_groups<int32_t>(values, start, threads)
                                              : rises_in_groups<int64_t>(values, start, threads);
        },
        "values"_a, "start"_a, "threads"_a);
}
