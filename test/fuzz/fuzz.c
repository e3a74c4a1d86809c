#define _GNU_SOURCE
#include "fuzz.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int fuzz_file(const uint8_t *data, size_t size, char path[64]) {
  int file = memfd_create("fuzz", MFD_CLOEXEC);
  if (file < 0) return -1;
  for (size_t done = 0; done < size;) {
    ssize_t n = write(file, data + done, size - done);
    if (n <= 0) return close(file), -1;
    done += (size_t)n;
  }
  snprintf(path, 64, "/proc/self/fd/%d", file);
  return file;
}
