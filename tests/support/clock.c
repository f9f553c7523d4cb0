/* The wall clock of a program and of the times of its files, AHEAD_S seconds ahead. Other clocks stay, so that
   every wait takes as long as ever. Preload it: `LD_PRELOAD=clock.so AHEAD_S=86400 date`. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t ahead;

__attribute__((constructor)) static void read_variable(void)
{
    const char *value = getenv("AHEAD_S");
    ahead = value ? atoll(value) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += ahead;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int failed = syscall(SYS_gettimeofday, now, zone);
    if (!failed)
        now->tv_sec += ahead;
    return failed;
}

time_t time(time_t *place)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place)
        *place = now.tv_sec;
    return now.tv_sec;
}

int fstatat64(int folder, const char *restrict path, struct stat64 *restrict found, int flags)
{
    int failed = syscall(SYS_newfstatat, folder, path, found, flags);
    if (!failed) {
        found->st_atim.tv_sec += ahead;
        found->st_mtim.tv_sec += ahead;
        found->st_ctim.tv_sec += ahead;
    }
    return failed;
}

int fstat64(int file, struct stat64 *found) { return fstatat64(file, "", found, AT_EMPTY_PATH); }

int stat64(const char *restrict path, struct stat64 *restrict found) { return fstatat64(AT_FDCWD, path, found, 0); }

int lstat64(const char *restrict path, struct stat64 *restrict found)
{
    return fstatat64(AT_FDCWD, path, found, AT_SYMLINK_NOFOLLOW);
}

static int set_times(int folder, const char *path, const struct timespec times[2], int flags)
{
    struct timespec real[2];
    for (int each = 0; times && each < 2; each++) {
        real[each] = times[each];
        if (real[each].tv_nsec != UTIME_NOW && real[each].tv_nsec != UTIME_OMIT)
            real[each].tv_sec -= ahead;
    }
    return syscall(SYS_utimensat, folder, path, times ? real : NULL, flags);
}

int utimensat(int folder, const char *path, const struct timespec times[2], int flags)
{
    return set_times(folder, path, times, flags);
}

int futimens(int file, const struct timespec times[2]) { return set_times(file, NULL, times, 0); }
