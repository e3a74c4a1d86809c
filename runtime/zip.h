/* ZIP archives of stored members, as plan files are: members one after the other from byte 0, the
 * directory, the end record with a comment; nothing between them. Dates are fixed, so equal
 * contents are equal bytes. Members and archives beyond 4 GiB use ZIP64. */
#ifndef ZIP_H
#define ZIP_H

#include "wafer/file.h"

typedef struct zip_member {
  const char *name;
  uint32_t align; /* the data starts at a multiple of it, a power of two up to 4096; 0: anywhere */
  size_t part_count;
  const wafer_bytes *parts; /* the data, in pieces; borrowed */
} zip_member;

/* The archive as pieces to be written one after the other: a header before each member's own
 * pieces, the directory at the end. `comment` points to the last comment_bytes of the last piece,
 * zeroed: what the caller puts there changes nothing else. */
typedef struct zip_archive {
  size_t part_count;
  const wafer_bytes *parts;
  char *comment;
} zip_archive;

typedef struct zip_options {
  uint16_t comment_bytes;
  uint64_t zip64_from; /* sizes and offsets from which on ZIP64 is used; 0: 4 GiB - 1 */
} zip_options;

wafer_status zip_build(const wafer_diag *diag, wafer_loc loc, wafer_arena *arena,
                       const zip_member *members, size_t count, zip_options options,
                       zip_archive *out);

typedef struct zip_entry {
  const char *name;
  wafer_bytes data; /* in the file */
} zip_entry;

/* What zip_build makes, read back; anything else is BAD_INPUT: compressed or encrypted members,
 * gaps, headers that disagree with the directory. Untrusted input: every offset is checked.
 * Checksums are not: the plan's digest covers more. */
wafer_status zip_read(const wafer_diag *diag, wafer_loc loc, wafer_arena *arena, wafer_bytes file,
                      zip_entry **entries, size_t *count, wafer_bytes *comment);

#endif
