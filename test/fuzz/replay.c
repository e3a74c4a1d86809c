/* Runs a fuzz target over files: what the tests do with the corpus. With --flips N each file is
 * also tried with N single bytes changed and N truncations, at places a fixed generator picks; XML
 * also with N numbers or attributes changed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

static uint8_t *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  uint8_t *data = malloc(*size + 1);
  if (data && fread(data, 1, *size, file) != *size) data = (free(data), NULL);
  fclose(file);
  return data;
}

/* A copy of exactly the right size, so that a sanitizer sees a byte read too far. */
static void try(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size ? size : 1);
  if (!copy) abort();
  memcpy(copy, data, size);
  LLVMFuzzerTestOneInput(copy, size);
  free(copy);
}

static void try_changes(uint8_t *data, size_t size, long count) {
  uint64_t state = size;
  for (long i = 0; i < count && size; i++) {
    size_t at = fuzz_next(&state) % size;
    uint8_t old = data[at];
    data[at] ^= (uint8_t)(1 + fuzz_next(&state) % 255);
    try(data, size);
    data[at] = old;
    try(data, fuzz_next(&state) % size);
  }
}

/* Numbers changed and attributes exchanged, as a fixed generator picks. */
static void try_xml(const uint8_t *data, size_t size, long count) {
  size_t room = 2 * size;
  uint64_t state = size;
  if (size == 0 || data[0] != '<') return;
  uint8_t *copy = malloc(room);
  if (!copy) abort();
  for (long i = 0; i < count; i++) {
    memcpy(copy, data, size);
    try(copy, i % 4 ? fuzz_change_number(copy, size, room, &state)
                    : fuzz_copy_attribute(copy, size, room, &state));
  }
  free(copy);
}

int main(int argc, char **argv) {
  long flips = 0, files = 0;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--flips") && i + 1 < argc) {
      flips = strtol(argv[++i], NULL, 10);
      continue;
    }
    size_t size;
    uint8_t *data = read_file(argv[i], &size);
    if (!data) return fprintf(stderr, "%s: cannot be read\n", argv[i]), EXIT_FAILURE;
    try(data, size);
    try_changes(data, size, flips);
    try_xml(data, size, flips);
    free(data);
    files++;
  }
  printf("%ld files, %ld changes each: no crash\n", files, 2 * flips);
  return files ? EXIT_SUCCESS : EXIT_FAILURE;
}
