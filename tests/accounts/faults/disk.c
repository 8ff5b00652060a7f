/* A disk that fails when it is told to, and that keeps a record of what was written and synced.
 *
 * Loaded before the C library (LD_PRELOAD), it stands between a process and every system call that changes
 * the files of one folder: those of Python and those of SQLite alike. Used by disk.py beside it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[PATH_MAX];
static size_t length;
static long calls, fail_at;
static int fail_with, failed;
static int record = -1;

/* Calls are counted from here on; the one with this number fails once with this error; 0: none does. */
void disk_watch(const char *path, long at, int error, int trace) {
    strncpy(folder, path, sizeof folder - 1);
    length = strlen(folder);
    calls = 0, fail_at = at, fail_with = error, failed = 0, record = trace;
}
long disk_calls(void) { return calls; }
int disk_failed(void) { return failed; }

static void put(const void *bytes, size_t size) {
    if (record >= 0) syscall(SYS_write, record, bytes, size);
}

/* One line, then raw bytes: kind, path, another path, offset, number of bytes. */
static void note(const char *kind, const char *path, const char *other, long long offset, const void *bytes,
                 size_t size) {
    char line[3 * PATH_MAX];
    if (record < 0) return;
    int count = snprintf(line, sizeof line, "%s\t%s\t%s\t%lld\t%zu\n", kind, path, other, offset, size);
    put(line, (size_t)count);
    put(bytes, size);
}
void disk_mark(const char *text) { note("mark", text, "", 0, "", 0); }

static int inside(const char *path) { return length && strncmp(path, folder, length) == 0; }
static int name_of(int file, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return inside(path);
}
/* Whether this call is the one that fails. */
static int fails(void) {
    if (++calls != fail_at) return 0;
    failed = 1;
    errno = fail_with;
    return 1;
}
#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

/* A write that fails for lack of space writes nothing; one that fails otherwise leaves the first half. */
#define HALF(size) (fail_with == EIO ? (size) / 2 : 0)

ssize_t write(int file, const void *bytes, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    char path[PATH_MAX];
    if (!length || !name_of(file, path)) return real(file, bytes, size);
    off_t place = lseek(file, 0, fcntl(file, F_GETFL) & O_APPEND ? SEEK_END : SEEK_CUR);
    if (fails()) {
        if (HALF(size)) note("write", path, "", place, bytes, (size_t)real(file, bytes, HALF(size)));
        errno = fail_with;
        return -1;
    }
    ssize_t done = real(file, bytes, size);
    if (done > 0) note("write", path, "", place, bytes, (size_t)done);
    return done;
}
static ssize_t written_at(int file, const void *bytes, size_t size, off_t place) {
    REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);
    char path[PATH_MAX];
    if (!length || !name_of(file, path)) return real(file, bytes, size, place);
    if (fails()) {
        if (HALF(size)) note("write", path, "", place, bytes, (size_t)real(file, bytes, HALF(size), place));
        errno = fail_with;
        return -1;
    }
    ssize_t done = real(file, bytes, size, place);
    if (done > 0) note("write", path, "", place, bytes, (size_t)done);
    return done;
}
ssize_t pwrite(int file, const void *bytes, size_t size, off_t place) { return written_at(file, bytes, size, place); }
ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t place) { return written_at(file, bytes, size, place); }

/* The real disk need not wait: whether something is on it is what the record says. */
#define SYNC(name) \
    int name(int file) { \
        REAL(int, #name, int); \
        char path[PATH_MAX]; \
        if (!length || !name_of(file, path)) return real(file); \
        if (fails()) return -1; \
        note("sync", path, "", 0, "", 0); \
        return 0; \
    }
SYNC(fsync)
SYNC(fdatasync)

static int cut(int file, off_t size) {
    REAL(int, "ftruncate", int, off_t);
    char path[PATH_MAX];
    if (!length || !name_of(file, path)) return real(file, size);
    if (fails()) return -1;
    note("cut", path, "", size, "", 0);
    return real(file, size);
}
int ftruncate(int file, off_t size) { return cut(file, size); }
int ftruncate64(int file, off64_t size) { return cut(file, size); }

#define OF_PATH(name, kind) \
    int name(const char *path) { \
        REAL(int, #name, const char *); \
        if (!inside(path)) return real(path); \
        if (fails()) return -1; \
        int result = real(path); \
        if (result == 0) note(kind, path, "", 0, "", 0); \
        return result; \
    }
OF_PATH(unlink, "unlink")
OF_PATH(rmdir, "rmdir")

int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t);
    if (!inside(path)) return real(path, mode);
    if (access(path, F_OK) == 0) return real(path, mode);
    if (fails()) return -1;
    int result = real(path, mode);
    if (result == 0) note("mkdir", path, "", 0, "", 0);
    return result;
}
int rename(const char *path, const char *other) {
    REAL(int, "rename", const char *, const char *);
    if (!inside(path)) return real(path, other);
    if (fails()) return -1;
    int result = real(path, other);
    if (result == 0) note("rename", path, other, 0, "", 0);
    return result;
}

/* Opening counts only if it makes a file. */
static int opened(int (*real)(const char *, int, ...), const char *path, int flags, mode_t mode) {
    if (!inside(path) || !(flags & O_CREAT) || access(path, F_OK) == 0) {
        int file = real(path, flags, mode);
        if (file >= 0 && inside(path) && (flags & O_TRUNC)) note("cut", path, "", 0, "", 0);
        return file;
    }
    if (fails()) return -1;
    int file = real(path, flags, mode);
    if (file >= 0) note("create", path, "", 0, "", 0);
    return file;
}
#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, #name, const char *, int, ...); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        return opened(real, path, flags, mode); \
    }
OPEN(open)
OPEN(open64)
