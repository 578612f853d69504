/* Calls of the system that fail on purpose: the k-th one below a folder. See faults.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { FAIL, SHORT, LOST, KILL };

static long counted, target = -1;
static int fault, number_of_error;
static char folder[PATH_MAX];

/* Names of the calls, in their order. */
static const char *names[1 << 16];

/* A file whose sync was lost, its size before, and the call at which power fails. */
static int lost = -1;
static off_t lost_size;
static long lost_until;

/* Sizes of files when they were last synced. */
static struct { dev_t device; ino_t inode; off_t size; } synced[256];
static int n_synced;

/* Begin to count; the call with this number has the fault. */
void codesign_faults_arm(long k, int kind, int error, const char *path) {
  counted = 0;
  target = k;
  fault = kind;
  number_of_error = error;
  strncpy(folder, path, sizeof folder - 1);
}

long codesign_faults_counted(void) { return counted; }
const char *codesign_faults_name(long k) { return names[k]; }

static int is_below(const char *path) {
  return folder[0] && path && strncmp(path, folder, strlen(folder)) == 0;
}

static int is_file_below(int descriptor) {
  char link[64], path[PATH_MAX];
  if (!folder[0]) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < 0) return 0;
  path[n] = 0;
  return is_below(path);
}

static int is_path_below(const char *path) {
  char place[PATH_MAX];
  if (!folder[0] || !path) return 0;
  if (path[0] == '/') return is_below(path);
  return getcwd(place, sizeof place) && is_below(place);
}

/* 1 if this call is the one with the fault. */
static int is_hit(const char *name) {
  if (target < 0) return 0;
  if (++counted < (long)(sizeof names / sizeof *names)) names[counted] = name;
  if (lost >= 0 && counted == lost_until) {
    if (ftruncate(lost, lost_size)) abort();
    kill(getpid(), SIGKILL);
  }
  if (counted != target) return 0;
  if (fault == KILL) kill(getpid(), SIGKILL);
  return 1;
}

#define REAL(type, name) static type real; if (!real) real = (type)dlsym(RTLD_NEXT, name)
#define REFUSE(value) do { errno = number_of_error; return value; } while (0)

typedef ssize_t (*write_t)(int, const void *, size_t);
ssize_t write(int d, const void *data, size_t n) {
  REAL(write_t, "write");
  if (is_file_below(d) && is_hit("write")) {
    if (fault == SHORT && n > 1) return real(d, data, n / 2);
    if (fault == FAIL) REFUSE(-1);
  }
  return real(d, data, n);
}

typedef ssize_t (*pwrite_t)(int, const void *, size_t, off_t);
static ssize_t pwrite_of(const char *name, int d, const void *data, size_t n, off_t at) {
  REAL(pwrite_t, "pwrite64");
  if (is_file_below(d) && is_hit(name)) {
    if (fault == SHORT && n > 1) return real(d, data, n / 2, at);
    if (fault == FAIL) REFUSE(-1);
  }
  return real(d, data, n, at);
}
ssize_t pwrite(int d, const void *data, size_t n, off_t at) { return pwrite_of("pwrite", d, data, n, at); }
ssize_t pwrite64(int d, const void *data, size_t n, off64_t at) { return pwrite_of("pwrite", d, data, n, at); }

/* A sync writes nothing, since no power fails here. A lost one is followed by that: two calls later,
 * mostly after a rename, the file is as when it was last synced. */
static int sync_of(const char *name, int d) {
  struct stat state;
  if (!is_file_below(d)) return 0;
  int hit = is_hit(name), k = 0;
  if (hit && fault == FAIL) REFUSE(-1);
  if (fstat(d, &state)) return -1;
  while (k < n_synced && (synced[k].device != state.st_dev || synced[k].inode != state.st_ino)) k++;
  if (hit && fault == LOST && S_ISREG(state.st_mode)) {
    lost_size = k < n_synced ? synced[k].size : 0;
    if (lost_size > state.st_size) lost_size = state.st_size;
    lost_until = counted + 2;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", d);
    long saved = target;
    target = -1;
    lost = open(link, O_WRONLY | O_CLOEXEC);
    target = saved;
    return 0;
  }
  if (k == (int)(sizeof synced / sizeof *synced)) abort();
  synced[k].device = state.st_dev;
  synced[k].inode = state.st_ino;
  synced[k].size = state.st_size;
  if (k == n_synced) n_synced++;
  return 0;
}
int fsync(int d) { return sync_of("fsync", d); }
int fdatasync(int d) { return sync_of("fdatasync", d); }

typedef int (*truncate_t)(int, off_t);
static int truncate_of(int d, off_t size) {
  REAL(truncate_t, "ftruncate64");
  if (is_file_below(d) && is_hit("ftruncate") && fault == FAIL) REFUSE(-1);
  return real(d, size);
}
int ftruncate(int d, off_t size) { return truncate_of(d, size); }
int ftruncate64(int d, off64_t size) { return truncate_of(d, size); }

typedef int (*flock_t)(int, int);
int flock(int d, int operation) {
  REAL(flock_t, "flock");
  if (is_file_below(d) && is_hit("flock") && fault == FAIL) REFUSE(-1);
  return real(d, operation);
}

typedef int (*fcntl_t)(int, int, ...);
static int fcntl_of(int d, int command, void *argument) {
  REAL(fcntl_t, "fcntl64");
  int is_lock = (command == F_SETLK || command == F_SETLKW) &&
                ((struct flock *)argument)->l_type != F_UNLCK;
  if (is_lock && is_file_below(d) && is_hit("fcntl") && fault == FAIL) REFUSE(-1);
  return real(d, command, argument);
}
#define POINTER(after) va_list list; va_start(list, after); \
  void *argument = va_arg(list, void *); va_end(list);
int fcntl(int d, int command, ...) { POINTER(command) return fcntl_of(d, command, argument); }
int fcntl64(int d, int command, ...) { POINTER(command) return fcntl_of(d, command, argument); }

typedef int (*rename_t)(const char *, const char *);
int rename(const char *from, const char *to) {
  REAL(rename_t, "rename");
  if (is_path_below(to) && is_hit("rename") && fault == FAIL) REFUSE(-1);
  return real(from, to);
}

typedef int (*path_t)(const char *);
int unlink(const char *path) {
  REAL(path_t, "unlink");
  if (is_path_below(path) && is_hit("unlink") && fault == FAIL) REFUSE(-1);
  return real(path);
}

typedef int (*mkdir_t)(const char *, mode_t);
int mkdir(const char *path, mode_t mode) {
  REAL(mkdir_t, "mkdir");
  if (is_path_below(path) && is_hit("mkdir") && fault == FAIL) REFUSE(-1);
  return real(path, mode);
}

typedef ssize_t (*read_t)(int, void *, size_t);
ssize_t read(int d, void *data, size_t n) {
  REAL(read_t, "read");
  if (is_file_below(d) && is_hit("read") && fault == FAIL) REFUSE(-1);
  return real(d, data, n);
}

typedef ssize_t (*pread_t)(int, void *, size_t, off_t);
static ssize_t pread_of(int d, void *data, size_t n, off_t at) {
  REAL(pread_t, "pread64");
  if (is_file_below(d) && is_hit("pread") && fault == FAIL) REFUSE(-1);
  return real(d, data, n, at);
}
ssize_t pread(int d, void *data, size_t n, off_t at) { return pread_of(d, data, n, at); }
ssize_t pread64(int d, void *data, size_t n, off64_t at) { return pread_of(d, data, n, at); }

typedef int (*open_t)(const char *, int, ...);
static int open_of(const char *path, int flags, mode_t mode) {
  REAL(open_t, "open64");
  const char *name = flags & O_CREAT ? "create" : "open";
  if (is_path_below(path) && is_hit(name) && fault == FAIL) REFUSE(-1);
  return real(path, flags, mode);
}
#define MODE(flags) mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { \
  va_list list; va_start(list, flags); mode = va_arg(list, mode_t); va_end(list); }
int open(const char *path, int flags, ...) { MODE(flags) return open_of(path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_of(path, flags, mode); }
