// The border of sums.cpp: arrays are checked here. And sums of single numbers, which gain nothing from vectors.
#include "sums.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "arrays.hpp"
#include "threads.hpp"

constexpr int64_t BLOCK = 1 << 18;  // numbers of a piece

void require_weights(const double* weight, int64_t count, int64_t threads) {
    Work work((count + BLOCK - 1) / BLOCK);
    std::atomic<bool> fine = true;
    run(work, threads, [&] {
        for (int64_t piece; (piece = work.take()) >= 0;) {
            bool good = true;
            for (int64_t i = piece * BLOCK; i < std::min(count, (piece + 1) * BLOCK); i++)
                good &= weight[i] >= 0.0 && weight[i] <= 1.0;
            if (!good) fine = false;
        }
    });
    require(fine, "weight must be from 0 to 1");
}

std::vector<Piece> pieces_of(const int64_t* start, int64_t tasks, int64_t most) {
    std::vector<Piece> pieces;
    for (int64_t task = 0; task < tasks; task++) {
        const int64_t rows = start[task + 1] - start[task];
        const int64_t size = std::max(PIECE_ROWS, (rows + most - 1) / most);
        for (int64_t first = start[task]; first < start[task + 1]; first += size)
            pieces.push_back({task, first, std::min(first + size, start[task + 1])});
    }
    return pieces;
}

namespace {

constexpr double LONGEST = 32767.0;
constexpr int64_t NEAR = 1 << 22;  // bytes of features that stay in a cache shared with others
constexpr int64_t MOST_ROWS = int64_t(1) << 32;
constexpr double MOST_UNITS = 1 << 28;  // of a single number

int64_t packed(int64_t d) {
    return d * (d + 1) / 2;
}

// The rows of tasks as Python gives them, checked.
template <class Number>
struct GivenRows {
    Array<const Number, 2> features;
    Array<const int32_t> user;
    Array<const double> label;
    std::vector<Array<const double>> share;  // one or none
    Array<const double> weight;
    Array<const int64_t> start;

    GivenRows(nb::handle features_, nb::handle user_, nb::handle label_, nb::handle share_, nb::handle weight_,
              nb::handle start_)
        : features(features_, "features"),
          user(user_, "user"),
          label(label_, "label"),
          weight(weight_, "weight"),
          start(start_, "start") {
        if (!share_.is_none()) share.push_back(given<double>(share_, "share"));
    }

    TaskRows<Number> checked(int64_t d, int64_t threads) const {
        const int64_t rows = user.shape(0), users = features.shape(0), width = features.shape(1);
        require(rows < MOST_ROWS, "so many rows are not summed at once: at most 2^32");
        require(d > 0 && d <= width && d <= (1 << 20), "d must be from 1 to the columns of features");
        require_length(label.shape(0), rows, "label");
        require_length(weight.shape(0), rows, "weight");
        require_starts(start, rows, "start");
        if (!share.empty()) require_length(share[0].shape(0), users, "share");
        require_range(user.data(), rows, 0, users, "user", threads);
        return {features.data(),
                user.data(),
                label.data(),
                share.empty() ? nullptr : share[0].data(),
                weight.data(),
                start.data(),
                start.shape(0) - 1,
                users,
                width,
                d};
    }
};

nb::tuple gram_sums(nb::handle features, int64_t d, nb::handle user, nb::handle label, nb::handle share,
                    nb::handle weight, nb::handle start, double unit, double grid, double grid_of_b,
                    int64_t threads) {
    const GivenRows<int16_t> given_rows(features, user, label, share, weight, start);
    const TaskRows<int16_t> rows = given_rows.checked(d, threads);
    require(rows.width % 16 == 0, "features must come in whole vectors: a multiple of 16 columns");
    require_size(unit, "unit");
    require_size(grid, "grid");
    require_size(grid_of_b, "grid_of_b");
    const double longest = LONGEST * unit / std::sqrt(grid);
    require(longest > 0 && longest <= 11585.0,
            "grid must not be below the squared bound of the features over 2^27");
    require_weights(rows.weight, given_rows.user.shape(0), threads);
    std::vector<Piece> pieces = pieces_of(rows.start, rows.tasks, MOST_ROWS);
    // The longest first: none must be left for the end.
    std::stable_sort(pieces.begin(), pieces.end(),
                     [](const Piece& a, const Piece& b) { return a.stop - a.first > b.stop - b.first; });
    Result<int64_t> second(rows.tasks, packed(d)), moments(rows.tasks, d);
    Locks locks;
    const GramSums all{rows,        pieces.data(), longest, std::sqrt(double(d)) / 2, unit / grid_of_b,
                       second.data, moments.data,  &locks};
    Work work(int64_t(pieces.size()));
    run(work, threads, [&] { sums_kernels().gram(all, work); });
    return nb::make_tuple(second.object, moments.object);
}

nb::object label_sums(nb::handle features, int64_t d, nb::handle user, nb::handle label, nb::handle share,
                      nb::handle weight, nb::handle start, double unit, double grid, int64_t threads) {
    const GivenRows<int16_t> given_rows(features, user, label, share, weight, start);
    const TaskRows<int16_t> rows = given_rows.checked(d, threads);
    require(rows.width % 16 == 0, "features must come in whole vectors: a multiple of 16 columns");
    require_size(unit, "unit");
    require_size(grid, "grid");
    const int64_t width = rows.width, count = given_rows.user.shape(0);
    Result<int64_t> sums(rows.tasks, width);
    const int64_t pieces = std::max<int64_t>(1, std::min(threads, count * width / (1 << 21)));
    std::vector<int64_t> edges(size_t(pieces * width));
    const LabelSums all{rows,        pieces,    std::max<int64_t>(1, NEAR / (2 * width)),
                        unit / grid, sums.data, edges.data()};
    if (count) {
        Work work(pieces);
        run(work, threads, [&] { sums_kernels().labels(all, work); });
    }
    for (int64_t piece = 1; piece < pieces; piece++) {
        const int64_t row = count * piece / pieces;
        const int64_t task = std::upper_bound(rows.start + 1, rows.start + rows.tasks, row) - (rows.start + 1);
        for (int64_t k = 0; k < width; k++) sums.data[task * width + k] += edges[size_t(piece * width + k)];
    }
    return sums.object[nb::make_tuple(nb::slice(nb::none(), nb::none(), nb::none()),
                                      nb::slice(nb::int_(0), nb::int_(d), nb::int_(1)))];
}

nb::tuple float_sums(nb::handle features, nb::handle user, nb::handle label, nb::handle share, nb::handle weight,
                     nb::handle start, int64_t threads) {
    const GivenRows<double> given_rows(features, user, label, share, weight, start);
    const int64_t d = given_rows.features.shape(1);
    const TaskRows<double> rows = given_rows.checked(d, threads);
    // A task's first piece is summed where the task's sums belong, later ones below all tasks.
    std::vector<Piece> pieces, later;
    int64_t next = 0;
    for (const Piece& piece : pieces_of(rows.start, rows.tasks, FLOAT_PIECES)) {
        for (; next < piece.task; next++) pieces.push_back({next, 0, 0});
        if (next == piece.task) {
            pieces.push_back(piece);
            next++;
        } else {
            later.push_back(piece);
        }
    }
    for (; next < rows.tasks; next++) pieces.push_back({next, 0, 0});
    pieces.insert(pieces.end(), later.begin(), later.end());
    const int64_t count = int64_t(pieces.size());
    Result<double> second(count, packed(d)), moments(count, d);
    const FloatSums all{rows, pieces.data(), second.data, moments.data};
    Work work(count);
    run(work, threads, [&] { sums_kernels().floats(all, work); });
    for (int64_t piece = rows.tasks; piece < count; piece++) {  // in order
        const int64_t task = pieces[size_t(piece)].task;
        for (int64_t k = 0; k < packed(d); k++)
            second.data[task * packed(d) + k] += second.data[piece * packed(d) + k];
        for (int64_t k = 0; k < d; k++) moments.data[task * d + k] += moments.data[piece * d + k];
    }
    const nb::slice tasks(nb::int_(0), nb::int_(rows.tasks), nb::int_(1));
    return nb::make_tuple(second.object[tasks], moments.object[tasks]);
}

// For each task the sum of trunc(value / grid), or the number of rows if there are no values. A part that is not
// below 2^28 units gives zero: no bounded one is so large, and 2^32 of them fit into 64 bits.
nb::object number_sums(nb::handle task_, nb::handle value_, int64_t tasks, double grid, int64_t threads) {
    const auto task = given<int32_t>(task_, "task");
    std::vector<Array<const double>> value;
    const int64_t rows = task.shape(0);
    if (!value_.is_none()) {
        value.push_back(given<double>(value_, "value"));
        require_length(value[0].shape(0), rows, "value");
        require_size(grid, "grid");
    }
    require(rows < MOST_ROWS, "so many rows are not summed at once: at most 2^32");
    require_range(task.data(), rows, 0, tasks, "task", threads);
    Result<int64_t> sums(tasks);
    Work work((rows + BLOCK - 1) / BLOCK);
    Locks locks;
    run(work, threads, [&] {
        std::vector<int64_t> own(static_cast<size_t>(tasks));
        const double* numbers = value.empty() ? nullptr : value[0].data();
        for (int64_t piece; (piece = work.take()) >= 0;)
            for (int64_t row = piece * BLOCK; row < std::min(rows, (piece + 1) * BLOCK); row++) {
                const double units = numbers ? numbers[row] / grid : 1.0;
                own[size_t(task.data()[row])] += std::fabs(units) < MOST_UNITS ? int64_t(units) : 0;
            }
        locks.lock(0);
        for (int64_t i = 0; i < tasks; i++) sums.data[i] += own[size_t(i)];
        locks.unlock(0);
    });
    return sums.object;
}

}  // namespace

void bind_sums(nb::module_& module) {
    module.def("gram_sums", &gram_sums, "features"_a, "d"_a, "user"_a, "label"_a, "share"_a.none(), "weight"_a,
               "start"_a, "unit"_a, "grid"_a, "grid_of_b"_a, "threads"_a);
    module.def("label_sums", &label_sums, "features"_a, "d"_a, "user"_a, "label"_a, "share"_a.none(), "weight"_a,
               "start"_a, "unit"_a, "grid"_a, "threads"_a);
    module.def("float_sums", &float_sums, "features"_a, "user"_a, "label"_a, "share"_a.none(), "weight"_a,
               "start"_a, "threads"_a);
    module.def("number_sums", &number_sums, "task"_a, "value"_a.none(), "tasks"_a, "grid"_a, "threads"_a);
}
