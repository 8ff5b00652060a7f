// The border of noise.cpp: arrays are checked here.
#include <algorithm>

#include "arrays.hpp"
#include "noise.hpp"

namespace {

// Fill `out` in place with words from `used` on; where and why it stopped, and the number in doubt.
nb::object fill_noise(nb::handle out_, int64_t at, nb::handle words_, int64_t used, nb::handle order_,
                      nb::handle ends_, nb::handle variance_, nb::handle block_, nb::handle shift_, nb::handle low_,
                      nb::handle log_, nb::handle cut_, nb::handle other_, double doubt) {
    const auto out = changed<int64_t>(out_, "out");
    const auto words = given<uint64_t>(words_, "words");
    const auto order = given<int64_t>(order_, "order"), ends = given<int64_t>(ends_, "ends");
    const auto variance = given<double>(variance_, "variance"), log = given<double>(log_, "log");
    const auto block = given<uint64_t>(block_, "block"), shift = given<uint64_t>(shift_, "shift");
    const auto low = given<int64_t, 2>(low_, "low");
    const auto cut = given<uint64_t>(cut_, "cut");
    const auto other = given<uint16_t>(other_, "other");
    const int64_t columns = order.shape(0), scales = ends.shape(0), count = out.shape(0);
    require(columns > 0 && scales > 0 && count % columns == 0, "out must be filled row by row");
    require(at >= 0 && at <= count, "at must be a place of out");
    require(used >= 0 && used <= words.shape(0), "used must be a number of words");
    require(ends.data()[scales - 1] == columns && ends.data()[0] >= 0 &&
                std::is_sorted(ends.data(), ends.data() + scales),
            "ends must not fall, and end with the number of columns");
    require_length(variance.shape(0), scales, "variance");
    require_length(block.shape(0), scales, "block");
    require_length(shift.shape(0), scales, "shift");
    for (int64_t scale = 0; scale < scales; scale++)
        require(block.data()[scale] >= 1 && block.data()[scale] <= (1 << 26) && shift.data()[scale] <= 24,
                "a block is 1 to 2^26, a shift 0 to 24");
    require_length(low.shape(0), scales, "low");
    require(low.shape(1) == BLOCKS, "low must have a column for each block");
    require_length(log.shape(0), BLOCKS, "log");
    require_length(cut.shape(0), BLOCKS, "cut");
    require_length(other.shape(0), BLOCKS, "other");
    require(*std::max_element(other.data(), other.data() + BLOCKS) < BLOCKS, "other must hold blocks");
    const Distribution by{log.data(),      cut.data(),   other.data(), doubt,      order.data(), ends.data(),
                          variance.data(), block.data(), shift.data(), low.data(), columns,      scales};
    Filling filled;
    {
        nb::gil_scoped_release release;  // at most as many numbers as there are words: a moment
        filled = noise_kernels().fill(by, out.data(), count, at, words.data(), words.shape(0), used);
    }
    require(filled.state != Filled::misplaced, "order must hold columns");
    return nb::make_tuple(filled.at, filled.used, int64_t(filled.state), filled.size, filled.block, filled.digits,
                          filled.scale);
}

}  // namespace

void bind_noise(nb::module_& module) {
    module.def("fill_noise", &fill_noise, "out"_a, "at"_a, "words"_a, "used"_a, "order"_a, "ends"_a, "variance"_a,
               "block"_a, "shift"_a, "low"_a, "log"_a, "cut"_a, "other"_a, "doubt"_a);
}
