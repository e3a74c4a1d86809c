/* Strings in .npy files: numpy's '<U7', seven code points of 32 bits, zeros behind a shorter one.
 */
#ifndef RUNTIME_NPY_TEXT_H
#define RUNTIME_NPY_TEXT_H

#include "wafer/arena.h"

/* Whether a type is one of strings, and of how many code points. */
bool npy_text_type(const char *descr, size_t *width);
/* So many elements as UTF-8; NULL: no memory. What is no code point becomes U+FFFD, also when it is
 * written. */
const char **npy_text_read(wafer_arena *arena, const void *data, size_t count, size_t width);
/* Code points of the longest text, at least one. */
size_t npy_text_width(const char *const *texts, size_t count);
/* `width` code points of one text. */
void npy_text_write(const char *text, size_t width, uint32_t *out);

#endif
