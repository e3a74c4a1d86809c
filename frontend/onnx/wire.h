/* The protobuf wire format, read by table: a message is a C struct, its schema an array of fields
 * indexed by field number. Nothing is known here of ONNX.
 *
 * Every message struct begins with `uint64_t has`: bit n is set when field n was present. Absent
 * fields are zero. Unknown fields are skipped. Text is copied (NUL-terminated) and lists are laid
 * out in the arena; bytes and packed payloads are not copied: they point into the input, which must
 * outlive the result. Memory is bounded by a constant times the input's bytes, depth by
 * WIRE_MAX_DEPTH. */
#ifndef FRONTEND_WIRE_H
#define FRONTEND_WIRE_H

#include "wafer/arena.h"
#include "wafer/diag.h"

#define WIRE_MAX_DEPTH 200 /* messages inside messages: a graph inside a graph is three of them */
#define WIRE_MAX_FIELDS 32 /* field numbers are below */

/* What a field's number stands for, and the type of the struct's member. */
typedef enum wire_kind {
  WIRE_UNKNOWN,  /* not read */
  WIRE_INT,      /* int64_t; also int32, enum */
  WIRE_FLOAT,    /* float */
  WIRE_TEXT,     /* const char *, UTF-8 without control characters */
  WIRE_BYTES,    /* wire_bytes */
  WIRE_MESSAGE,  /* struct *; at most once */
  WIRE_INTS,     /* wire_ints, packed or not */
  WIRE_FLOATS,   /* wire_floats, packed or not */
  WIRE_TEXTS,    /* wire_texts */
  WIRE_BLOBS,    /* wire_blobs */
  WIRE_MESSAGES, /* { struct *at; size_t count; } */
  WIRE_PACKED,   /* wire_bytes: packed elements as they lie in the input (varints, or little-endian)
                  */
} wire_kind;

typedef struct wire_bytes {
  const uint8_t *at;
  size_t count;
} wire_bytes;

typedef struct wire_ints {
  const int64_t *at;
  size_t count;
} wire_ints;

typedef struct wire_floats {
  const float *at;
  size_t count;
} wire_floats;

typedef struct wire_texts {
  const char *const *at;
  size_t count;
} wire_texts;

typedef struct wire_blobs {
  const wire_bytes *at;
  size_t count;
} wire_blobs;

typedef struct wire_message wire_message;

typedef struct wire_field {
  wire_kind kind;
  uint32_t
      element;   /* WIRE_PACKED: wire type of an element (0 varint, 5 four bytes, 1 eight bytes) */
  size_t offset; /* of the member */
  const wire_message *message; /* WIRE_MESSAGE, WIRE_MESSAGES */
} wire_field;

struct wire_message {
  const char *name;         /* for errors */
  size_t bytes;             /* of the struct */
  uint32_t count;           /* of `fields`, at most WIRE_MAX_FIELDS */
  const wire_field *fields; /* by field number */
};

typedef struct wire_source {
  const wafer_diag *diag;
  wafer_arena *arena;
  const char *file; /* for errors */
  wire_bytes input; /* the whole file; errors give offsets into it */
} wire_source;

/* Decodes all of `source->input` as one `message`. Any malformation is WAFER_BAD_INPUT with the
 * byte offset at which it stands. */
WAFER_MUST_USE wafer_status wire_decode(const wire_source *source, const wire_message *message,
                                        void **out);

/* Decodes packed varints (a WIRE_PACKED payload that wire_decode has validated) one by one; false
 * at the end. */
bool wire_next_varint(wire_bytes *packed, uint64_t *value);

#endif
