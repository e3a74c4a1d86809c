/* The plan file: a ZIP archive of plan.xml, weights.safetensors, model.mlir and programs/N.bin. Its
 * comment is the digest of every byte outside the weights' data and the digest's own digits;
 * plan.xml has a digest per weight. */
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "plan_file.h"
#include "plan_xml.h"
#include "tensor/safetensors.h"
#include "zip.h"

enum { PLAN_XML, WEIGHTS, MODEL_MLIR, FIXED_MEMBERS };
static const char *const member_names[FIXED_MEMBERS] = {"plan.xml", "weights.safetensors",
                                                        "model.mlir"};

#define COMMENT "xxh3-128:"
#define DIGITS 32
#define COMMENT_BYTES (sizeof COMMENT - 1 + DIGITS)
#define MAP_ALIGN 64 /* where the weights' data starts in the file */

typedef struct wafer_plan_file wafer_plan_file;
struct wafer_plan_file {
  wafer_arena *arena;
  const char *path;
  wafer_bytes bytes, xml;
  size_t data_start, data_end; /* of the weights, in the file */
  atomic_bool *touched;        /* per weight: its digest agreed */
};

/* ---- digests ---- */

static void digits_of(const XXH3_state_t *state, char digits[DIGITS + 1]) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
  for (size_t i = 0; i < sizeof canonical.digest; i++)
    for (int half = 0; half < 2; half++)
      digits[2 * i + (size_t)half] = "0123456789abcdef"[canonical.digest[i] >> (half ? 0 : 4) & 15];
  digits[DIGITS] = 0;
}

static wafer_status check_structure(const wafer_diag *diag, const wafer_plan_file *f) {
  char digits[DIGITS + 1];
  const char *bytes = f->bytes.data, *kept = bytes + f->bytes.size - DIGITS;
  XXH3_state_t *state = XXH3_createState();
  if (!state) return wafer_fail(diag, wafer_at_file(f->path), WAFER_NO_MEMORY, "no memory");
  XXH3_128bits_reset(state);
  XXH3_128bits_update(state, bytes, f->data_start);
  XXH3_128bits_update(state, bytes + f->data_end, (size_t)(kept - bytes) - f->data_end);
  digits_of(state, digits);
  XXH3_freeState(state);
  if (!memcmp(digits, kept, DIGITS)) return WAFER_OK;
  return wafer_fail(diag, wafer_at_file(f->path), WAFER_BAD_INPUT,
                    "the plan has changed since it was written: its digest is %s, not %.32s",
                    digits, kept);
}

wafer_status wafer_plan_touch_weight(const wafer_diag *diag, const wafer_plan *plan,
                                     uint32_t index) {
  const wafer_plan_file *f = plan->file;
  const wafer_weight *weight = wafer_weights_at(plan->weights, index);
  assert(weight);
  wafer_loc loc = wafer_at_file(f ? f->path : plan->model);
  if (!weight->data)
    return wafer_fail(diag, loc, WAFER_BAD_INPUT,
                      "weight '%s' is absent, so the plan can be looked at but not run%s%s",
                      weight->name, *weight->expected ? "; it was expected in " : "",
                      weight->expected);
  if (!f || atomic_load_explicit(&f->touched[index], memory_order_acquire)) return WAFER_OK;
  uint64_t digest = XXH3_64bits(weight->data, weight->bytes);
  if (digest != weight->digest)
    return wafer_fail(
        diag, loc, WAFER_BAD_INPUT,
        "weight '%s' has changed since the plan was written: its digest is %016llx, not "
        "%016llx",
        weight->name, (unsigned long long)digest, (unsigned long long)weight->digest);
  atomic_store_explicit(&f->touched[index], true, memory_order_release);
  return WAFER_OK;
}

wafer_status wafer_plan_verify(const wafer_diag *diag, const wafer_plan *plan) {
  const wafer_plan_file *f = plan->file;
  if (!f) return WAFER_OK; /* built in memory: nothing that could have changed */
  WAFER_TRY(check_structure(diag, f));
  const char *name = wafer_arena_printf(f->arena, "%s/%s", f->path, member_names[PLAN_XML]);
  WAFER_TRY(plan_xml_validate(diag, name ? name : f->path, f->xml.data, f->xml.size));
  for (size_t i = 0, count = wafer_weights_count(plan->weights); i < count; i++)
    if (wafer_weights_at(plan->weights, i)->data)
      WAFER_TRY(wafer_plan_touch_weight(diag, plan, (uint32_t)i));
  return WAFER_OK;
}

/* ---- writing ---- */

static void digest_weights(const wafer_plan *plan) {
  for (size_t i = 0, count = plan->weights ? wafer_weights_count(plan->weights) : 0; i < count; i++)
    wafer_weight_digest(wafer_weights_at(plan->weights, i));
}

/* Fills in the comment: every piece counts but the weights' data, the pieces from `data` to
 * `data_end`. */
static bool sign(const zip_archive *archive, size_t data, size_t data_end) {
  char digits[DIGITS + 1];
  XXH3_state_t *state = XXH3_createState();
  if (!state) return false;
  memcpy(archive->comment, COMMENT, sizeof COMMENT - 1);
  XXH3_128bits_reset(state);
  for (size_t i = 0; i < archive->part_count; i++) {
    bool last = i + 1 == archive->part_count;
    if (i >= data && i < data_end) continue;
    XXH3_128bits_update(state, archive->parts[i].data,
                        archive->parts[i].size - (last ? DIGITS : 0));
  }
  digits_of(state, digits);
  XXH3_freeState(state);
  memcpy(archive->comment + sizeof COMMENT - 1, digits, DIGITS);
  return true;
}

static wafer_status save(const wafer_diag *diag, const char *path, const zip_archive *archive) {
  wafer_file *file;
  WAFER_TRY(wafer_file_begin(diag, path, &file));
  for (size_t i = 0; i < archive->part_count; i++) {
    wafer_status status = wafer_file_write(file, archive->parts[i].data, archive->parts[i].size);
    if (status == WAFER_OK) continue;
    wafer_file_abort(file);
    return status;
  }
  return wafer_file_commit(file);
}

static const char *program_name(wafer_arena *arena, uint32_t program) {
  return wafer_arena_printf(arena, "programs/%u.bin", program);
}

wafer_status plan_file_save(const wafer_diag *diag, wafer_arena *arena, const char *path,
                            const plan_members *from) {
  const zip_member fixed[FIXED_MEMBERS] = {
      {member_names[PLAN_XML], 0, 1, &from->xml},
      {member_names[WEIGHTS], MAP_ALIGN, from->weight_parts, from->weights},
      {member_names[MODEL_MLIR], 0, 1, &from->mlir},
  };
  wafer_loc loc = wafer_at_file(path);
  size_t count = FIXED_MEMBERS + (size_t)from->program_count;
  zip_member *members = WAFER_NEW(arena, zip_member, count);
  if (!members) return wafer_fail(diag, loc, WAFER_NO_MEMORY, "no memory");
  memcpy(members, fixed, sizeof fixed);
  for (uint32_t i = 0; i < from->program_count; i++) {
    const char *name = program_name(arena, i);
    if (!name) return wafer_fail(diag, loc, WAFER_NO_MEMORY, "no memory");
    members[FIXED_MEMBERS + i] = (zip_member){name, 0, 1, &from->programs[i]};
  }
  zip_archive archive;
  zip_options options = {.comment_bytes = COMMENT_BYTES};
  WAFER_TRY(zip_build(diag, loc, arena, members, count, options, &archive));
  /* pieces: header, plan.xml, header, safetensors header, weights ... */
  if (!sign(&archive, 4, 3 + from->weight_parts))
    return wafer_fail(diag, loc, WAFER_NO_MEMORY, "no memory");
  return save(diag, path, &archive);
}

static wafer_status write_plan(const wafer_diag *diag, const wafer_plan *plan, wafer_arena *arena,
                               wafer_bytes xml, const char *path) {
  plan_members members = {.xml = xml,
                          .mlir = {plan->mlir ? plan->mlir : "", plan->mlir_bytes},
                          .program_count = plan->program_count,
                          .programs = plan->programs};
  const wafer_weights *table = plan->weights ? plan->weights : wafer_weights_create(arena);
  wafer_bytes *weights;
  if (!table) return wafer_fail(diag, wafer_at_file(path), WAFER_NO_MEMORY, "no memory");
  WAFER_TRY(
      safetensors_parts(diag, wafer_at_file(path), arena, table, &weights, &members.weight_parts));
  members.weights = weights;
  return plan_file_save(diag, arena, path, &members);
}

wafer_status wafer_plan_write(const wafer_diag *diag, const wafer_plan *plan, const char *path) {
  wafer_bytes xml = {0};
  char *text;
  digest_weights(plan);
  WAFER_TRY(plan_xml_write(diag, plan, &text, &xml.size));
  xml.data = text;
  wafer_arena *arena = wafer_arena_create();
  wafer_status status = arena ? write_plan(diag, plan, arena, xml, path)
                              : wafer_fail(diag, wafer_at_file(path), WAFER_NO_MEMORY, "no memory");
  wafer_arena_destroy(arena);
  free(text);
  return status;
}

wafer_status wafer_plan_print_xml(const wafer_diag *diag, const wafer_plan *plan, char **text,
                                  size_t *bytes) {
  *text = NULL;
  if (!plan->file) {
    digest_weights(plan);
    return plan_xml_write(diag, plan, text, bytes);
  }
  *bytes = plan->file->xml.size;
  *text = malloc(*bytes + 1);
  if (!*text)
    return wafer_fail(diag, wafer_at_file(plan->file->path), WAFER_NO_MEMORY, "no memory");
  memcpy(*text, plan->file->xml.data, *bytes);
  (*text)[*bytes] = 0;
  return WAFER_OK;
}

/* ---- opening ---- */

static wafer_status bad(const wafer_diag *diag, const wafer_plan_file *f, const char *what) {
  return wafer_fail(diag, wafer_at_file(f->path), WAFER_BAD_INPUT, "not a plan file: %s", what);
}

static wafer_status read_archive(const wafer_diag *diag, wafer_plan_file *f,
                                 wafer_bytes members[FIXED_MEMBERS], wafer_plan *plan) {
  zip_entry *entries;
  wafer_bytes comment;
  size_t count;
  WAFER_TRY(zip_read(diag, wafer_at_file(f->path), f->arena, f->bytes, &entries, &count, &comment));
  bool right = count >= FIXED_MEMBERS && count - FIXED_MEMBERS < WAFER_NONE &&
               comment.size == COMMENT_BYTES && !memcmp(comment.data, COMMENT, sizeof COMMENT - 1);
  for (size_t i = 0; right && i < FIXED_MEMBERS; i++) {
    right = !strcmp(entries[i].name, member_names[i]);
    members[i] = entries[i].data;
  }
  if (!right) return bad(diag, f, "it is a ZIP archive, but not of plan.xml, weights and IR");
  plan->program_count = (uint32_t)(count - FIXED_MEMBERS);
  wafer_bytes *programs = WAFER_NEW(f->arena, wafer_bytes, plan->program_count);
  plan->programs = programs;
  if (!programs) return wafer_fail(diag, wafer_at_file(f->path), WAFER_NO_MEMORY, "no memory");
  for (uint32_t i = 0; i < plan->program_count; i++) {
    const char *name = program_name(f->arena, i);
    if (!name) return wafer_fail(diag, wafer_at_file(f->path), WAFER_NO_MEMORY, "no memory");
    if (strcmp(entries[FIXED_MEMBERS + i].name, name))
      return bad(diag, f, "its programs are not numbered in order");
    programs[i] = entries[FIXED_MEMBERS + i].data;
  }
  return WAFER_OK;
}

/* The weights' data begins behind the length and the header of weights.safetensors. */
static wafer_status find_data(const wafer_diag *diag, wafer_plan_file *f, wafer_bytes weights) {
  const unsigned char *bytes = weights.data;
  uint64_t header = 0;
  for (int i = 0; i < 8 && weights.size >= 8; i++) header |= (uint64_t)bytes[i] << (8 * i);
  if (weights.size < 8 || header > weights.size - 8)
    return bad(diag, f, "weights.safetensors is cut off");
  f->data_start = (size_t)(bytes - (const unsigned char *)f->bytes.data) + 8 + header;
  f->data_end = (size_t)(bytes - (const unsigned char *)f->bytes.data) + weights.size;
  return WAFER_OK;
}

/* Gives the weights of plan.xml their data: every tensor of the file is one that plan.xml promises,
 * and every promise is kept. */
static wafer_status attach_weights(const wafer_diag *diag, const wafer_plan_file *f,
                                   wafer_bytes member, const wafer_plan *plan) {
  wafer_loc loc = wafer_at_file(f->path);
  size_t promised = 0, count = wafer_weights_count(plan->weights);
  wafer_weights *found = wafer_weights_create(f->arena);
  if (!found) return wafer_fail(diag, loc, WAFER_NO_MEMORY, "no memory for the weights");
  WAFER_TRY(safetensors_read(diag, loc, member, f->arena, found));
  for (size_t i = 0; i < count; i++) promised += wafer_weights_at(plan->weights, i)->data != NULL;
  if (promised != wafer_weights_count(found))
    return wafer_fail(diag, loc, WAFER_BAD_INPUT,
                      "plan.xml has %zu weights that are not absent, weights.safetensors %zu",
                      promised, wafer_weights_count(found));
  for (size_t i = 0; i < promised; i++) {
    const wafer_weight *data = wafer_weights_at(found, i);
    wafer_weight *weight = wafer_weights_find(plan->weights, data->name);
    if (!weight || !weight->data || weight->dtype != data->dtype ||
        !wafer_shape_equal(&weight->shape, &data->shape))
      return wafer_fail(diag, loc, WAFER_BAD_INPUT,
                        "weights.safetensors holds '%s', which plan.xml does not have in this type",
                        data->name);
    weight->data = data->data;
  }
  return WAFER_OK;
}

static wafer_status open_plan(const wafer_diag *diag, wafer_plan_file *f, wafer_plan *plan) {
  wafer_bytes members[FIXED_MEMBERS];
  WAFER_TRY(wafer_file_map(diag, f->arena, f->path, &f->bytes));
  WAFER_TRY(read_archive(diag, f, members, plan));
  WAFER_TRY(find_data(diag, f, members[WEIGHTS]));
  WAFER_TRY(check_structure(diag, f));
  f->xml = members[PLAN_XML];
  plan->mlir = members[MODEL_MLIR].data;
  plan->mlir_bytes = members[MODEL_MLIR].size;
  const char *name = wafer_arena_printf(f->arena, "%s/%s", f->path, member_names[PLAN_XML]);
  if (!name) return wafer_fail(diag, wafer_at_file(f->path), WAFER_NO_MEMORY, "no memory");
  WAFER_TRY(plan_xml_read(diag, f->arena, name, f->xml.data, f->xml.size, plan));
  WAFER_TRY(attach_weights(diag, f, members[WEIGHTS], plan));
  f->touched = WAFER_NEW(f->arena, atomic_bool, wafer_weights_count(plan->weights));
  if (!f->touched) return wafer_fail(diag, wafer_at_file(f->path), WAFER_NO_MEMORY, "no memory");
  return wafer_plan_check(diag, f->path, plan);
}

wafer_status wafer_plan_open(const wafer_diag *diag, const char *path, const wafer_plan **out) {
  *out = NULL;
  wafer_arena *arena = wafer_arena_create();
  wafer_plan *plan = arena ? WAFER_NEW(arena, wafer_plan, 1) : NULL;
  wafer_plan_file *file = arena ? WAFER_NEW(arena, wafer_plan_file, 1) : NULL;
  char *own_path = arena ? wafer_arena_strdup(arena, path) : NULL;
  if (!plan || !file || !own_path) {
    wafer_arena_destroy(arena);
    return wafer_fail(diag, wafer_at_file(path), WAFER_NO_MEMORY, "no memory for the plan");
  }
  *file = (wafer_plan_file){.arena = arena, .path = own_path};
  plan->file = file;
  wafer_status status = open_plan(diag, file, plan);
  if (status == WAFER_OK)
    *out = plan;
  else
    wafer_arena_destroy(arena);
  return status;
}

void wafer_plan_close(const wafer_plan *plan) {
  if (plan) wafer_arena_destroy(plan->file->arena);
}
