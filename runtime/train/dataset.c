/* Where samples lie: files, shards, counts. */
#include "dataset.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "wafer/npy.h"

static wafer_status no_memory(const wafer_dataset *d) {
  return wafer_fail(d->diag, wafer_at_file(d->path), WAFER_NO_MEMORY, "out of memory for the data");
}

/* ---- files ---- */

static wafer_status open_shard(wafer_dataset *d, const char *path, shard *out) {
  *out = (shard){.path = path};
  WAFER_TRY(wafer_npy_read(d->diag, d->arena, path, &out->view));
  if (out->view.shape.rank == 0 || out->view.dtype == WAFER_DTYPE_string)
    return wafer_fail(d->diag, wafer_at_file(path), WAFER_BAD_INPUT,
                      "a scalar holds no samples; the first dim counts them");
  return WAFER_OK;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_shard(const char *name, const char *prefix) {
  size_t length = strlen(name), start = strlen(prefix);
  return !strncmp(name, prefix, start) && length > start + 4 && !strcmp(name + length - 4, ".npy");
}

/* Names of DIR that begin with `prefix`, sorted. */
static wafer_status list_shards(wafer_dataset *d, const char *prefix, const char ***out,
                                uint32_t *count) {
  DIR *folder = opendir(d->path);
  size_t room = 16;
  const char **names = WAFER_NEW(d->arena, const char *, room);
  *count = 0;
  if (!folder) return wafer_fail(d->diag, wafer_at_file(d->path), WAFER_IO, "cannot list: %m");
  for (struct dirent *entry; names && (entry = readdir(folder));) {
    if (!is_shard(entry->d_name, prefix)) continue;
    if (*count == room) {
      const char **more = WAFER_NEW(d->arena, const char *, room * 2);
      if (more) memcpy(more, names, room * sizeof *more);
      names = more;
      room *= 2;
    }
    if (names) names[*count] = wafer_arena_printf(d->arena, "%s/%s", d->path, entry->d_name);
    if (names && !names[(*count)++]) names = NULL;
  }
  closedir(folder);
  if (!names) return no_memory(d);
  qsort(names, *count, sizeof *names, by_name);
  *out = names;
  return WAFER_OK;
}

static wafer_status open_field(wafer_dataset *d, const char *const *paths, uint32_t count) {
  field *f = &d->fields[d->field_count++];
  f->shards = WAFER_NEW(d->arena, shard, count);
  f->first = WAFER_NEW(d->arena, uint64_t, count + 1);
  if (!f->shards || !f->first) return no_memory(d);
  for (f->shard_count = 0; f->shard_count < count; f->shard_count++)
    WAFER_TRY(open_shard(d, paths[f->shard_count], &f->shards[f->shard_count]));
  return WAFER_OK;
}

/* "X.npy,Y.npy": a field each. */
static wafer_status open_list(wafer_dataset *d) {
  char *rest = wafer_arena_strdup(d->arena, d->path), *end;
  for (const char *path = rest; path; path = end ? end + 1 : NULL) {
    if ((end = strchr(path, ','))) *end = 0;
    if (d->field_count == DATASET_FIELDS)
      return wafer_fail(d->diag, wafer_at_file(d->path), WAFER_UNSUPPORTED,
                        "more than %d files of one dataset", DATASET_FIELDS);
    WAFER_TRY(open_field(d, &path, 1));
  }
  return rest ? WAFER_OK : no_memory(d);
}

/* x-3.npy goes with y-3.npy: what follows the letter is the shard's name. */
static wafer_status match_names(const wafer_dataset *d, const char **xs, const char **ys,
                                uint32_t count) {
  size_t letter = strlen(d->path) + 1;
  for (uint32_t i = 0; i < count; i++)
    if (strcmp(xs[i] + letter + 1, ys[i] + letter + 1))
      return wafer_fail(d->diag, wafer_at_file(d->path), WAFER_BAD_INPUT,
                        "has %s and %s, which are no shard: one of each under the same name is "
                        "wanted",
                        xs[i] + letter, ys[i] + letter);
  return WAFER_OK;
}

static wafer_status open_folder(wafer_dataset *d, bool lm) {
  static const char *const prefixes[] = {"x-", "y-"};
  const char **names, **first = NULL;
  uint32_t count, features = 0;
  if (lm) {
    WAFER_TRY(list_shards(d, "tokens-", &names, &count));
    if (count) return open_field(d, names, count);
    return wafer_fail(d->diag, wafer_at_file(d->path), WAFER_BAD_INPUT,
                      "has no tokens-*.npy, which --lm reads");
  }
  for (uint32_t i = 0; i < 2; i++) {
    WAFER_TRY(list_shards(d, prefixes[i], &names, &count));
    if (i == 0) features = count, first = names;
    if (count == 0 || count != features)
      return wafer_fail(d->diag, wafer_at_file(d->path), WAFER_BAD_INPUT,
                        "has %" PRIu32 " files x-*.npy and %" PRIu32
                        " y-*.npy, one of each per shard is wanted%s",
                        features, i ? count : 0, i ? "" : "; tokens-*.npy are read with --lm");
    if (i) WAFER_TRY(match_names(d, first, names, count));
    WAFER_TRY(open_field(d, names, count));
  }
  return WAFER_OK;
}

/* ---- counts ---- */

static wafer_status differ(const wafer_dataset *d, const shard *s, const shard *than,
                           const char *what) {
  char one[128], other[128];
  wafer_shape_format(&s->view.shape, one, sizeof one);
  wafer_shape_format(&than->view.shape, other, sizeof other);
  return wafer_fail(d->diag, wafer_at_file(s->path), WAFER_BAD_INPUT,
                    "%s of %s, which does not fit %s of %s in %s: %s", one,
                    wafer_dtype_name(s->view.dtype), other, wafer_dtype_name(than->view.dtype),
                    than->path, what);
}

static bool same_samples(const wafer_view *a, const wafer_view *b) {
  wafer_shape x = a->shape, y = b->shape;
  x.dims[0] = y.dims[0] = 0;
  return a->dtype == b->dtype && wafer_shape_equal(&x, &y);
}

static uint64_t windows_of(const wafer_dataset *d, const shard *s) {
  int64_t tokens = s->view.shape.dims[0];
  return d->sequence && tokens > 1 ? (uint64_t)((tokens - 1) / d->sequence) : 0;
}

static uint64_t samples_of(const wafer_dataset *d, const shard *s) {
  return d->tokens ? windows_of(d, s) : (uint64_t)s->view.shape.dims[0];
}

static wafer_status count_field(wafer_dataset *d, field *f) {
  for (uint32_t i = 0; i < f->shard_count; i++) {
    const shard *s = &f->shards[i];
    if (!same_samples(&s->view, &f->shards[0].view))
      return differ(d, s, &f->shards[0], "shards have samples of one shape and type");
    f->first[i + 1] = f->first[i] + samples_of(d, s);
  }
  return WAFER_OK;
}

static wafer_status count_all(wafer_dataset *d) {
  for (uint32_t i = 0; i < d->field_count; i++) {
    field *f = &d->fields[i];
    WAFER_TRY(count_field(d, f));
    for (uint32_t s = 0; s < f->shard_count; s++)
      if (f->first[s + 1] != d->fields[0].first[s + 1])
        return differ(d, &f->shards[s], &d->fields[0].shards[s], "the first dim counts samples");
  }
  d->samples = d->fields[0].first[d->fields[0].shard_count];
  if (d->samples == 0 && !(d->tokens && !d->sequence))
    return wafer_fail(d->diag, wafer_at_file(d->path), WAFER_BAD_INPUT, "has no samples");
  return WAFER_OK;
}

static wafer_status check_tokens(const wafer_dataset *d) {
  const field *f = &d->fields[0];
  if (d->field_count != 1)
    return wafer_fail(d->diag, wafer_at_file(d->path), WAFER_USAGE,
                      "--lm reads tokens alone, from one file or DIR/tokens-*.npy");
  for (uint32_t i = 0; i < f->shard_count; i++)
    if (f->shards[i].view.shape.rank != 1 || wafer_dtype_is_float(f->shards[i].view.dtype))
      return wafer_fail(d->diag, wafer_at_file(f->shards[i].path), WAFER_BAD_INPUT,
                        "tokens are integers of one dim, found %s of %" PRIu32 " dims",
                        wafer_dtype_name(f->shards[i].view.dtype), f->shards[i].view.shape.rank);
  return WAFER_OK;
}

wafer_status wafer_dataset_open(const wafer_diag *diag, wafer_arena *arena, const char *path,
                                bool lm, wafer_dataset **out) {
  struct stat about;
  *out = NULL;
  wafer_dataset *d = WAFER_NEW(arena, wafer_dataset, 1);
  if (!d || !(d->path = wafer_arena_strdup(arena, path)))
    return wafer_fail(diag, wafer_at_file(path), WAFER_NO_MEMORY, "out of memory for the data");
  d->diag = diag;
  d->arena = arena;
  d->tokens = lm;
  bool folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
  WAFER_TRY(folder ? open_folder(d, lm) : open_list(d));
  if (lm) WAFER_TRY(check_tokens(d));
  if (!lm && d->field_count < 2)
    return wafer_fail(diag, wafer_at_file(path), WAFER_BAD_INPUT,
                      "names one file; X.npy,Y.npy (inputs, then labels), or tokens with --lm");
  WAFER_TRY(count_all(d));
  *out = d;
  return WAFER_OK;
}

wafer_status wafer_dataset_window(wafer_dataset *d, int64_t sequence) {
  if (!d->tokens || sequence < 1)
    return wafer_fail(d->diag, wafer_at_file(d->path), WAFER_USAGE,
                      "windows of %" PRId64 " are of tokens (--lm), at least one long", sequence);
  d->sequence = sequence;
  WAFER_TRY(count_field(d, &d->fields[0]));
  d->samples = d->fields[0].first[d->fields[0].shard_count];
  if (d->samples) return WAFER_OK;
  return wafer_fail(d->diag, wafer_at_file(d->path), WAFER_BAD_INPUT,
                    "no shard has the %" PRId64 " tokens of one window and its labels",
                    sequence + 1);
}

uint64_t wafer_dataset_samples(const wafer_dataset *d) {
  return d->samples;
}

uint32_t wafer_dataset_fields(const wafer_dataset *d) {
  return d->tokens ? 2 : d->field_count;
}

wafer_shape wafer_dataset_shape(const wafer_dataset *d, uint32_t index) {
  if (d->tokens) return (wafer_shape){1, {d->sequence}};
  wafer_shape whole = d->fields[index].shards[0].view.shape, made = {.rank = whole.rank - 1};
  memcpy(made.dims, whole.dims + 1, made.rank * sizeof *made.dims);
  return made;
}

/* Position of the first element that is no number; `count`: there is none. */
static int64_t first_odd(const wafer_view *view, int64_t count) {
  int64_t i = 0;
  while (i < count && isfinite(wafer_element_f64(view->dtype, view->data, i))) i++;
  return i;
}

void wafer_dataset_doubt(const wafer_dataset *d, const wafer_diag *diag) {
  for (uint32_t i = 0; i < d->field_count; i++)
    for (uint32_t s = 0; s < d->fields[i].shard_count; s++) {
      const shard *at = &d->fields[i].shards[s];
      int64_t count = 0, rows = at->view.shape.rank ? at->view.shape.dims[0] : 0;
      if (!wafer_dtype_is_float(at->view.dtype) || rows < 1) continue;
      (void)wafer_shape_elements(&at->view.shape, &count);
      int64_t odd = first_odd(&at->view, count);
      if (odd == count) continue;
      wafer_warn(diag, wafer_at_file(at->path), "row %" PRId64 " has %g at element %" PRId64,
                 odd / (count / rows), wafer_element_f64(at->view.dtype, at->view.data, odd),
                 odd % (count / rows));
      return;
    }
}
