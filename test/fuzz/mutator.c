/* libFuzzer's mutations, and changes of XML files that leave them well formed. */
#include "fuzz.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
  uint64_t state = seed;
  if (size == 0 || data[0] != '<' || seed % 4 == 0) return LLVMFuzzerMutate(data, size, room);
  for (uint64_t count = 1 + fuzz_next(&state) % 3; count > 0; count--)
    size = fuzz_next(&state) % 4 ? fuzz_change_number(data, size, room, &state)
                                 : fuzz_copy_attribute(data, size, room, &state);
  return size;
}
