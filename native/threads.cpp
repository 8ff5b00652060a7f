#include "threads.hpp"

#include <nanobind/nanobind.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <vector>

namespace {

constexpr int64_t EVERY = 50'000'000;  // nanoseconds between two looks for signals
constexpr int64_t MOST = 4096;

int64_t now() {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace

Work::Work(int64_t pieces)
    : next_(0),
      pieces_(pieces),
      stopped_(false),
      interrupted_(false),
      caller_(std::this_thread::get_id()),
      looked_(now()) {}

int64_t Work::take() {
    if (stopped()) return -1;
    const int64_t piece = next_.fetch_add(1, std::memory_order_relaxed);
    return piece < pieces_ ? piece : -1;
}

bool Work::stopped() {
    if (std::this_thread::get_id() == caller_ && now() - looked_ > EVERY) look_for_signals();
    return stopped_.load(std::memory_order_relaxed);
}

void Work::stop() {
    stopped_.store(true, std::memory_order_relaxed);
}

void Work::look_for_signals() {
    looked_ = now();
    if (interrupted_) return;
    nanobind::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) {
        interrupted_ = true;
        stop();
    }
}

Locks::Locks() : mutexes_(new std::mutex[COUNT]) {}
Locks::~Locks() {
    delete[] mutexes_;
}
void Locks::lock(int64_t which) {
    mutexes_[which % COUNT].lock();
}
void Locks::unlock(int64_t which) {
    mutexes_[which % COUNT].unlock();
}

void run(Work& work, int64_t threads, const std::function<void()>& thread) {
    if (threads < 1 || threads > MOST) throw std::invalid_argument("threads must be from 1 to 4096");
    {
        nanobind::gil_scoped_release release;
        std::mutex mutex;
        std::condition_variable finished;
        int64_t running = 0;
        std::exception_ptr failure;
        auto guarded = [&] {
            try {
                thread();
            } catch (...) {
                work.stop();
                std::lock_guard held(mutex);
                if (!failure) failure = std::current_exception();
            }
        };
        std::vector<std::thread> others;
        others.reserve(size_t(threads - 1));
        for (int64_t i = 1; i < threads && i < work.pieces_; i++) {
            {
                std::lock_guard held(mutex);
                running++;
            }
            try {
                others.emplace_back([&] {
                    guarded();
                    std::lock_guard held(mutex);
                    running--;
                    finished.notify_one();
                });
            } catch (const std::system_error&) {  // no more threads are to be had: these do the work
                std::lock_guard held(mutex);
                running--;
                break;
            }
        }
        guarded();
        {
            std::unique_lock held(mutex);
            while (!finished.wait_for(held, std::chrono::nanoseconds(EVERY), [&] { return running == 0; })) {
                held.unlock();
                work.stopped();
                held.lock();
            }
        }
        for (std::thread& each : others) each.join();
        if (failure && !work.interrupted_) std::rethrow_exception(failure);
    }
    if (work.interrupted_) throw nanobind::python_error();
}
