#include "sparsity.h"

#include <string.h>

#include "cli.h"

wafer_status sparsity_parse(const char *command, const char *text, double *out) {
  if (!cli_parse_f64(command, "--sparsity", text, out)) return WAFER_USAGE;
  if (*out >= 0 && *out < 1) return WAFER_OK;
  return (wafer_status)cli_usage(
      command, "--sparsity wants the share of zeros, at least 0 and below 1, got '%s'", text);
}

static wafer_status add(wafer_arena *arena, const char *name, const wafer_view *mask,
                        sparsity_masks *masks) {
  if (masks->count == masks->room) {
    size_t room = 2 * masks->room + 16;
    wafer_value_binding *at = WAFER_NEW(arena, wafer_value_binding, room);
    if (!at) return cli_no_memory();
    if (masks->count) memcpy(at, masks->at, masks->count * sizeof *at);
    masks->at = at;
    masks->room = room;
  }
  masks->at[masks->count++] = (wafer_value_binding){name, *mask};
  return WAFER_OK;
}

wafer_status sparsity_add_mask(const char *command, wafer_arena *arena, const char *text,
                               sparsity_masks *masks) {
  static const char suffix[] = ".safetensors";
  size_t length = strlen(text), tail = sizeof suffix - 1;
  if (length > tail && !strcmp(text + length - tail, suffix)) {
    wafer_weights *table = wafer_weights_create(arena);
    if (!table) return cli_no_memory();
    WAFER_TRY(wafer_weights_read(cli_diag(), arena, text, table));
    for (size_t i = 0; i < wafer_weights_count(table); i++) {
      const wafer_weight *w = wafer_weights_at(table, i);
      wafer_view mask = wafer_weight_view(w);
      WAFER_TRY(add(arena, w->name, &mask, masks));
    }
    return WAFER_OK;
  }
  const char *name, *path;
  wafer_view mask;
  if (!cli_parse_pair(command, "--mask", text, arena, &name, &path)) return WAFER_USAGE;
  WAFER_TRY(wafer_npy_read(cli_diag(), arena, path, &mask));
  return add(arena, name, &mask, masks);
}
