/* Loaded into a process before the C library. Makes operations on files fail or hang.
 *
 * $LUCARNE_BAD_DISK is a directory. A file in this directory has the name of a fault, and
 * contains a part of the affected paths. A fault lasts as long as its file exists, except
 * `lose` and `lie`, whose files are removed at the first affected write.
 *
 * `lose`: the next write to an affected path is lost, as if by the kernel. Reads return the
 * new bytes, but the disk never has them. One sync of the file fails, and all later syncs
 * succeed. `lost-<inode>-<offset>` contains the bytes that are on the disk, until a later
 * write to the same offset.
 *
 * `lie`: as `lose`, but no sync fails. Direct reads return the bytes on the disk.
 *
 * `cached`: affected paths have no direct reads.
 *
 * `readonly`: affected paths are on a read-only file system.
 *
 * `quota`: affected files cannot grow or be created.
 *
 * `hang`: every open, read, write, sync and stat of an affected path waits.
 *
 * `fail`: the same operations fail with an I/O error.
 *
 * `watch`: writes and failed syncs append a line to `seen`: `write` or `failed`, and the
 * inode.
 *
 * `clock`: the file contains the milliseconds by which the wall clock is ahead; a negative
 * number means behind.
 *
 * $LUCARNE_KILL_AT is a number n: the process is killed before its nth call that changes a
 * file or directory.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const char *place(void) {
    static const char *place;
    if (!place && !(place = getenv("LUCARNE_BAD_DISK"))) place = "/nonexistent";
    return place;
}

static void named(char *into, const char *format, unsigned long long a, unsigned long long b) {
    int n = snprintf(into, 512, "%s/", place());
    snprintf(into + n, 512 - n, format, a, b);
}

/* Returns whether the fault is active for this path. */
static int meant(const char *fault, const char *path) {
    char file[512], part[512];
    named(file, fault, 0, 0);
    int fd = syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = syscall(SYS_read, fd, part, sizeof part - 1);
    syscall(SYS_close, fd);
    if (n <= 0) return 0;
    part[n] = 0;
    return strstr(path, part) != NULL;
}

static void hang(const char *path) {
    while (meant("hang", path)) usleep(2000);
}

/* Waits while the path hangs. Returns whether the operation must fail. */
static int bad(const char *path) {
    hang(path);
    if (!meant("fail", path)) return 0;
    errno = EIO;
    return 1;
}

static long left;

__attribute__((constructor)) static void count(void) {
    const char *at = getenv("LUCARNE_KILL_AT");
    left = at ? atol(at) : 0;
}

/* Called before each change of a file or directory. Kills the process at the chosen call. */
static void changing(void) {
    if (left > 0 && __atomic_sub_fetch(&left, 1, __ATOMIC_SEQ_CST) == 0) kill(getpid(), SIGKILL);
}

static const char *path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, path, 511);
    path[n < 0 ? 0 : n] = 0;
    return path;
}

static int bad_fd(int fd) {
    int saved = errno;
    char path[512];
    if (bad(path_of(fd, path))) return 1;
    errno = saved;
    return 0;
}

static void note(const char *what, const char *path, unsigned long long inode) {
    char file[512], line[64];
    if (!meant("watch", path)) return;
    named(file, "seen", 0, 0);
    int seen = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int n = snprintf(line, sizeof line, "%s %llu\n", what, inode);
    syscall(SYS_write, seen, line, n);
    syscall(SYS_close, seen);
}

/* Returns whether this fault refuses a change of the path, and then sets errno to `error`. */
static int refused(const char *path, const char *fault, int error) {
    if (!meant(fault, path)) return 0;
    errno = error;
    return 1;
}

static int read_only(const char *path) { return refused(path, "readonly", EROFS); }

static int barred(const char *path) {
    return read_only(path) || refused(path, "quota", EDQUOT);
}

/* Prepares the faults of a write. Returns whether the write must fail. */
static int writing(int fd, size_t length, off64_t offset) {
    int saved = errno;
    char path[512], file[512];
    struct stat status;
    if (bad(path_of(fd, path)) || (length > 0 ? barred(path) : read_only(path))) return 1;
    if (length > 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
        changing();
        note("write", path, status.st_ino);
        named(file, "lost-%llu-%llu", status.st_ino, offset);
        int lie = meant("lie", path);
        if (!lie && !meant("lose", path)) {
            syscall(SYS_unlinkat, AT_FDCWD, file, 0);
        } else {
            char *old = calloc(1, length);
            syscall(SYS_pread64, fd, old, length, offset);
            int lost = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
            syscall(SYS_write, lost, old, length);
            syscall(SYS_close, lost);
            free(old);
            if (!lie) {
                named(file, "failing-%llu", status.st_ino, 0);
                syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT, 0600));
            }
            named(file, lie ? "lie" : "lose", 0, 0);
            syscall(SYS_unlinkat, AT_FDCWD, file, 0);
        }
    }
    errno = saved;
    return 0;
}

/* Returns whether this sync must fail, because a write was lost. */
static int failing(int fd) {
    char path[512], file[512];
    struct stat status;
    if (bad(path_of(fd, path))) return 1;
    changing();
    if (fstat(fd, &status) != 0) return 0;
    named(file, "failing-%llu", status.st_ino, 0);
    if (syscall(SYS_unlinkat, AT_FDCWD, file, 0) != 0) return 0;
    note("failed", path, status.st_ino);
    errno = EIO;
    return 1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at) {
    if (writing(fd, n, at)) return -1;
    return syscall(SYS_pwrite64, fd, bytes, n, at);
}
ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at) { return pwrite64(fd, bytes, n, at); }
ssize_t write(int fd, const void *bytes, size_t n) {
    if (writing(fd, n, lseek64(fd, 0, SEEK_CUR))) return -1;
    return syscall(SYS_write, fd, bytes, n);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    size_t n = 0;
    for (int i = 0; i < count; i++) n += parts[i].iov_len;
    if (writing(fd, n, lseek64(fd, 0, SEEK_CUR))) return -1;
    return syscall(SYS_writev, fd, parts, count);
}
/* Replaces the bytes of lost writes in a direct read of `n` bytes at `at` by the bytes on
 * the disk. */
static void as_on_disk(int fd, char *bytes, ssize_t n, off64_t at) {
    struct stat status;
    struct dirent *entry;
    if (n <= 0 || !(fcntl(fd, F_GETFL) & O_DIRECT) || fstat(fd, &status) != 0) return;
    DIR *faults = opendir(place());
    while (faults && (entry = readdir(faults))) {
        unsigned long long inode, offset;
        char file[512], old;
        if (sscanf(entry->d_name, "lost-%llu-%llu", &inode, &offset) != 2) continue;
        if (inode != status.st_ino) continue;
        named(file, "lost-%llu-%llu", inode, offset);
        int lost = syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
        for (off64_t i = offset; syscall(SYS_read, lost, &old, 1) == 1; i++)
            if (i >= at && i < at + n) bytes[i - at] = old;
        syscall(SYS_close, lost);
    }
    if (faults) closedir(faults);
}

ssize_t pread64(int fd, void *bytes, size_t n, off64_t at) {
    if (bad_fd(fd)) return -1;
    n = syscall(SYS_pread64, fd, bytes, n, at);
    as_on_disk(fd, bytes, n, at);
    return n;
}
ssize_t pread(int fd, void *bytes, size_t n, off_t at) { return pread64(fd, bytes, n, at); }
ssize_t read(int fd, void *bytes, size_t n) {
    if (bad_fd(fd)) return -1;
    return NEXT(read)(fd, bytes, n);
}
static int read_only_fd(int fd) {
    int saved = errno;
    char path[512];
    if (read_only(path_of(fd, path))) return 1;
    errno = saved;
    return 0;
}
int fdatasync(int fd) { return read_only_fd(fd) || failing(fd) ? -1 : NEXT(fdatasync)(fd); }
int fsync(int fd) { return read_only_fd(fd) || failing(fd) ? -1 : NEXT(fsync)(fd); }

int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) ? va_arg(more, mode_t) : 0;
    va_end(more);
    if (bad(path)) return -1;
    if ((flags & O_ACCMODE) != O_RDONLY && read_only(path)) return -1;
    if (flags & O_CREAT && syscall(SYS_access, path, F_OK) != 0 && barred(path)) return -1;
    if (flags & O_DIRECT && meant("cached", path)) {
        errno = EINVAL;
        return -1;
    }
    if (flags & (O_CREAT | O_TRUNC)) changing();
    return NEXT(open64)(path, flags, mode);
}
int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) ? va_arg(more, mode_t) : 0;
    va_end(more);
    return open64(path, flags, mode);
}

int statx(int at, const char *path, int flags, unsigned mask, struct statx *status) {
    /* Rust's library calls statx without a path to test whether the call exists. A header
     * declares `path` as non-null, so without `volatile` the compiler removes the check. */
    const char *volatile given = path;
    if (given && (*given ? bad(path) : bad_fd(at))) return -1;
    return syscall(SYS_statx, at, path, flags, mask, status);
}
int mkdir(const char *path, mode_t mode) {
    if (bad(path) || barred(path)) return -1;
    changing();
    return NEXT(mkdir)(path, mode);
}
int rename(const char *from, const char *to) {
    if (bad(from) || bad(to) || read_only(to)) return -1;
    changing();
    return NEXT(rename)(from, to);
}
int unlink(const char *path) {
    if (bad(path) || read_only(path)) return -1;
    changing();
    return NEXT(unlink)(path);
}
int ftruncate64(int fd, off64_t length) {
    char path[512];
    if (bad_fd(fd) || barred(path_of(fd, path))) return -1;
    changing();
    return NEXT(ftruncate64)(fd, length);
}
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

/* Returns the wall clock, with the offset in `clock`. */
int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    if (result != 0 || clock != CLOCK_REALTIME) return result;
    int saved = errno;
    char file[512], text[32];
    named(file, "clock", 0, 0);
    int fd = syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = syscall(SYS_read, fd, text, sizeof text - 1);
        syscall(SYS_close, fd);
        text[n > 0 ? n : 0] = 0;
        long long ms = time->tv_sec * 1000LL + time->tv_nsec / 1000000 + atoll(text);
        time->tv_sec = ms / 1000;
        time->tv_nsec = ms % 1000 * 1000000 + time->tv_nsec % 1000000;
    }
    errno = saved;
    return 0;
}
