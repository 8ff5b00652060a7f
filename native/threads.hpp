// Threads of one call: they are started, share out the pieces of the work, and are joined before it returns.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

// The pieces of one call's work. No member is inline: files of several instruction sets share them.
class Work {
public:
    explicit Work(int64_t pieces);
    Work(const Work&) = delete;

    // The next piece that no thread has taken, or -1 if there is none or the work was stopped.
    int64_t take();

    // Whether to stop (Ctrl-C, or another thread failed). To be asked at least every few milliseconds; asking costs
    // about as much as a few dozen multiplications. The thread that called looks after signals here.
    bool stopped();

    void stop();

private:
    friend void run(Work&, int64_t, const std::function<void()>&);

    std::atomic<int64_t> next_;
    const int64_t pieces_;
    std::atomic<bool> stopped_;
    bool interrupted_;  // a Python exception waits in the thread that called
    const std::thread::id caller_;
    int64_t looked_;  // when for signals, in nanoseconds

    void look_for_signals();
};

// For sums of whole numbers that threads share: they add in any order.
class Locks {
public:
    Locks();
    Locks(const Locks&) = delete;
    ~Locks();
    void lock(int64_t which);
    void unlock(int64_t which);

private:
    static constexpr int COUNT = 64;
    std::mutex* mutexes_;
};

// `thread()` in so many threads at most, the calling one among them, without Python's lock. Returns when all are
// done. The first exception of a thread is passed on, and so is Ctrl-C. Fewer threads are started where there are
// fewer pieces, or where the system refuses more: so threads take pieces, and nothing depends on how many there
// are.
void run(Work& work, int64_t threads, const std::function<void()>& thread);

// step(0), step(1), ... one after the other in this thread, without Python's lock; Ctrl-C is noticed in between.
template <class Function>
void in_order(int64_t count, Function step) {
    constexpr int64_t AT_ONCE = 1 << 18;
    Work work((count + AT_ONCE - 1) / AT_ONCE);
    run(work, 1, [&] {
        for (int64_t piece; (piece = work.take()) >= 0;) {
            const int64_t stop = count - piece * AT_ONCE < AT_ONCE ? count : (piece + 1) * AT_ONCE;
            for (int64_t i = piece * AT_ONCE; i < stop; i++) step(i);
        }
    });
}
