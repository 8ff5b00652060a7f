// Who takes which items, for simulated data. The twin is twins/simulate.py.
//
// A user draws items by popularity, p_i, and takes one with probability c(u . v_i), c being a table of chances over
// agreement. Every user has random numbers of its own, SplitMix64 of the seed and the user's number, so that
// threads change nothing. After 60 draws an item that is to be taken, the user goes on with the most popular items
// left.
#include <algorithm>
#include <vector>

#include "arrays.hpp"
#include "threads.hpp"

namespace {

constexpr int64_t PATIENCE = 60, AT_ONCE = 64;
// Chances are those of agreement -16 + k / STEPS.
constexpr float LOWEST = -16.0f, STEPS = 128.0f;

struct Uniform {
    uint64_t state;

    double next() {
        uint64_t x = state += 0x9E3779B97F4A7C15u;
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
        return double((x ^ (x >> 31)) >> 11) * 0x1p-53;
    }
};

void choose(nb::handle start_, nb::handle cumulative_, nb::handle chance_, nb::handle user_vectors_,
            nb::handle item_vectors_, nb::handle place_, nb::handle taste_, uint64_t seed, int64_t threads) {
    const auto start = given<int64_t>(start_, "start");
    const auto cumulative = given<double>(cumulative_, "cumulative");
    const auto chance = given<float>(chance_, "chance");
    const auto user_vectors = given<float, 2>(user_vectors_, "user_vectors");
    const auto item_vectors = given<float, 2>(item_vectors_, "item_vectors");
    const auto place = changed<int32_t>(place_, "place");
    const auto taste = changed<float>(taste_, "taste");
    const int64_t users = user_vectors.shape(0), items = item_vectors.shape(0), rank = item_vectors.shape(1);
    require_length(start.shape(0), users + 1, "start");
    require_starts(start, place.shape(0), "start");
    require_length(taste.shape(0), place.shape(0), "taste");
    require_length(cumulative.shape(0), items, "cumulative");
    require(user_vectors.shape(1) == rank, "vectors must have as many columns");
    require(chance.shape(0) >= 1, "chance must not be empty");
    for (int64_t user = 0; user < users; user++)
        require(start.data()[user + 1] - start.data()[user] <= items, "nobody takes more items than there are");
    // Where to begin looking for a point in `cumulative`: one step on average instead of a search.
    std::vector<int64_t> guide(static_cast<size_t>(items));
    for (int64_t item = 0; item < items; item++)
        guide[size_t(item)] = std::min<int64_t>(
            std::lower_bound(cumulative.data(), cumulative.data() + items, double(item) / double(items)) -
                cumulative.data(),
            items - 1);
    Work work((users + AT_ONCE - 1) / AT_ONCE);
    run(work, threads, [&] {
        std::vector<int64_t> last(static_cast<size_t>(items), -1);
        for (int64_t piece; (piece = work.take()) >= 0;) {
            for (int64_t user = piece * AT_ONCE; user < std::min(users, (piece + 1) * AT_ONCE); user++) {
                if (work.stopped()) return;
                Uniform random{seed + uint64_t(user) * 0xD1342543DE82EF95u};
                const float* own = user_vectors.data() + user * rank;
                int64_t row = start.data()[user], following = 0;
                const int64_t end = start.data()[user + 1];
                for (int64_t draws = PATIENCE * (end - row); row < end;) {
                    int64_t item;
                    if (draws > 0) {
                        draws--;
                        const double point = random.next();
                        item = guide[size_t(point * double(items))];
                        while (item < items - 1 && cumulative.data()[item] < point) item++;
                    } else {
                        item = following++;
                    }
                    if (last[size_t(item)] == user) continue;
                    float agreement = 0.0f;
                    for (int64_t k = 0; k < rank; k++) agreement += own[k] * item_vectors.data()[item * rank + k];
                    const float step = (agreement - LOWEST) * STEPS;
                    // (A step that is not a number is none.)
                    const int64_t at = int64_t(std::min(std::max(0.0f, step), float(chance.shape(0) - 1)));
                    if (draws > 0 && random.next() >= double(chance.data()[at])) continue;
                    last[size_t(item)] = user;
                    place.data()[row] = int32_t(item);
                    taste.data()[row] = agreement;
                    row++;
                }
            }
        }
    });
}

}  // namespace

void bind_simulate(nb::module_& module) {
    module.def("choose", &choose, "start"_a, "cumulative"_a, "chance"_a, "user_vectors"_a, "item_vectors"_a,
               "place"_a, "taste"_a, "seed"_a, "threads"_a);
}
