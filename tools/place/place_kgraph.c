/* Reads a kernel graph of the contest: a header of settings in a comment, a line per kernel, a line
 * per edge. Blanks and tabs may stand anywhere between words; the last line may lack its newline.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "place.h"
#include "wafer/file.h"

#define MOST_ARGUMENT 65535u

/* What an edge says of a node: its word and number. */
typedef struct line_end {
  int word;
  uint32_t id;
} line_end;

typedef struct line_edge {
  line_end from, to;
  uint32_t line;
} line_edge;

typedef struct reader {
  const wafer_diag *diag;
  wafer_arena *arena;
  const char *path, *at, *end; /* of the current line */
  uint32_t line;
  contest *out;
  uint32_t *ids;       /* of every node, inputs and outputs too */
  int *word_of;        /* index into words */
  uint32_t *kernel_of; /* PLACER kernel of a node, or UINT32_MAX */
  uint32_t nodes, room;
  line_edge *edges;
  uint32_t edges_read, edge_room;
} reader;

static wafer_loc here(const reader *r) {
  return wafer_at_line(r->path, r->line, 0);
}

static wafer_status no_memory(const reader *r) {
  return wafer_fail(r->diag, here(r), WAFER_NO_MEMORY, "no memory to read the kernel graph");
}

static void blanks(reader *r) {
  while (r->at < r->end && isspace((unsigned char)*r->at)) r->at++;
}

static bool take(reader *r, const char *text) {
  size_t n = strlen(text);
  blanks(r);
  if ((size_t)(r->end - r->at) < n || memcmp(r->at, text, n) != 0) return false;
  r->at += n;
  return true;
}

static wafer_status number(reader *r, const char *what, uint64_t most, uint64_t *out) {
  blanks(r);
  uint64_t value = 0;
  const char *from = r->at;
  while (r->at < r->end && isdigit((unsigned char)*r->at)) {
    value = value * 10 + (uint64_t)(*r->at++ - '0');
    if (value > most)
      return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "%s is more than %llu", what,
                        (unsigned long long)most);
  }
  bool goes_on = r->at < r->end && (*r->at == '.' || isalpha((unsigned char)*r->at));
  if (r->at == from || goes_on)
    return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "%s wants a whole number, got '%.*s'",
                      what, (int)(r->end - from > 12 ? 12 : r->end - from), from);
  *out = value;
  return WAFER_OK;
}

/* "[ 12 ]" */
static wafer_status bracket(reader *r, uint32_t *id) {
  uint64_t value;
  if (!take(r, "["))
    return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "a node wants its number in brackets");
  WAFER_TRY(number(r, "a node's number", UINT32_MAX - 1, &value));
  if (!take(r, "]"))
    return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "']' is missing after node %llu",
                      (unsigned long long)value);
  *id = (uint32_t)value;
  return WAFER_OK;
}

/* Node words, in the order of kernel_type, then inputs and outputs. */
static const char *const words[] = {"conv", "dblock", "cblock", "input", "output"};

static int node_word(reader *r) {
  for (int i = 0; i < (int)WAFER_COUNT(words); i++) {
    const char *before = r->at;
    if (take(r, words[i])) {
      blanks(r);
      if (r->at < r->end && *r->at == '[') return i;
    }
    r->at = before;
  }
  return -1;
}

static uint64_t *argument(contest_kernel *k, char letter) {
  switch (toupper((unsigned char)letter)) {
  case 'H': return &k->H;
  case 'W': return &k->W;
  case 'F': return &k->F;
  case 'R': return &k->R;
  case 'S': return &k->S;
  case 'C': return &k->C;
  case 'K': return &k->K;
  case 'T': return &k->T;
  case 'U': return &k->U;
  default: return NULL;
  }
}

static wafer_status name_of(reader *r, contest_kernel *k) {
  const char *from = r->at;
  while (r->at < r->end && *r->at != '\'') r->at++;
  if (r->at == r->end || r->at == from)
    return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "a kernel's name wants quotes around it");
  for (const char *c = from; c < r->at; c++)
    if (!isalnum((unsigned char)*c) && !strchr("_.-", *c))
      return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT,
                        "a kernel's name has letters, digits and _.- in it, got '%.*s'",
                        (int)(r->at - from > 40 ? 40 : r->at - from), from);
  k->name = wafer_arena_strndup(r->arena, from, (size_t)(r->at - from));
  r->at++;
  return k->name ? WAFER_OK : no_memory(r);
}

static wafer_status arguments(reader *r, contest_kernel *k) {
  for (blanks(r); r->at < r->end; blanks(r)) {
    if (take(r, "name='")) {
      WAFER_TRY(name_of(r, k));
      continue;
    }
    char letter = *r->at++;
    uint64_t *to = argument(k, letter);
    if (!to || !take(r, "="))
      return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT,
                        "kernel %u wants H= W= and the like, got '%c'", k->id,
                        isprint((unsigned char)letter) ? letter : '?');
    char what[] = "argument ?";
    what[9] = letter;
    WAFER_TRY(number(r, what, MOST_ARGUMENT, to));
  }
  return WAFER_OK;
}

static wafer_status check_kernel(reader *r, contest_kernel *k) {
  bool conv = k->type == KERNEL_CONV;
  if (conv && !k->U) k->U = k->T;
  bool whole = k->H && k->W && (conv ? k->R && k->S && k->C && k->K && k->T : k->F > 0);
  if (!whole)
    return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT,
                      "kernel %u lacks an argument of %s, or it is 0; "
                      "it wants %s",
                      k->id, words[k->type], conv ? "H W R S C K T" : "H W F");
  if (!conv && (k->F % 4 || (k->type == KERNEL_CBLOCK && (k->H < 2 || k->W < 2))))
    return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT,
                      "kernel %u has F=%llu H=%llu W=%llu; a block wants F a multiple of 4, a "
                      "cblock an image of at least 2 x 2",
                      k->id, (unsigned long long)k->F, (unsigned long long)k->H,
                      (unsigned long long)k->W);
  if (!k->name) k->name = wafer_arena_printf(r->arena, "k%u", k->id);
  return k->name ? WAFER_OK : no_memory(r);
}

static wafer_status add_node(reader *r, uint32_t id, int word, uint32_t kernel) {
  if (r->nodes == r->room) {
    uint32_t room = r->room ? 2 * r->room : 256;
    uint32_t *ids = realloc(r->ids, room * sizeof *ids);
    if (ids) r->ids = ids;
    uint32_t *of = realloc(r->kernel_of, room * sizeof *of);
    if (of) r->kernel_of = of;
    int *word_of = realloc(r->word_of, room * sizeof *word_of);
    if (word_of) r->word_of = word_of;
    contest_kernel *kernels = realloc(r->out->kernels, room * sizeof *kernels);
    if (kernels) r->out->kernels = kernels;
    if (!ids || !of || !word_of || !kernels) return no_memory(r);
    r->room = room;
  }
  r->ids[r->nodes] = id;
  r->word_of[r->nodes] = word;
  r->kernel_of[r->nodes++] = kernel;
  return WAFER_OK;
}

static wafer_status read_node(reader *r, int word) {
  uint32_t id;
  WAFER_TRY(bracket(r, &id));
  for (uint32_t i = 0; i < r->nodes; i++)
    if (r->ids[i] == id)
      return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "node %u is there twice", id);
  if (word > KERNEL_CBLOCK) return add_node(r, id, word, UINT32_MAX);
  if (r->out->count == WAFER_PLACER_MOST_KERNELS)
    return wafer_fail(r->diag, here(r), WAFER_UNSUPPORTED, "more than %u kernels",
                      WAFER_PLACER_MOST_KERNELS);
  contest_kernel k = {.type = (kernel_type)word, .id = id};
  WAFER_TRY(arguments(r, &k));
  WAFER_TRY(check_kernel(r, &k));
  for (uint32_t i = 0; i < r->out->count; i++)
    if (!strcmp(r->out->kernels[i].name, k.name))
      return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "two kernels are named %s", k.name);
  WAFER_TRY(add_node(r, id, word, r->out->count));
  r->out->kernels[r->out->count++] = k;
  return WAFER_OK;
}

static wafer_status read_edge(reader *r, line_end from) {
  line_end to;
  while (r->at + 1 < r->end && !(r->at[0] == '-' && r->at[1] == '>')) r->at++;
  if (!take(r, "->") || (to.word = node_word(r)) < 0)
    return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT, "an edge wants NODE[n]:y -> NODE[n]:x");
  WAFER_TRY(bracket(r, &to.id));
  if (r->edges_read == r->edge_room) {
    uint32_t room = r->edge_room ? 2 * r->edge_room : 256;
    line_edge *edges = realloc(r->edges, room * sizeof *edges);
    if (!edges) return no_memory(r);
    r->edges = edges;
    r->edge_room = room;
  }
  r->edges[r->edges_read++] = (line_edge){from, to, r->line};
  return WAFER_OK;
}

static wafer_status read_setting(reader *r) {
  contest *c = r->out;
  uint64_t width = c->width, height = c->height;
  const struct {
    const char *name;
    uint64_t most, *to;
  } settings[] = {
      {"width=", WAFER_PLACER_MOST_SIDE, &width}, {"height=", WAFER_PLACER_MOST_SIDE, &height},
      {"wdeltat=", 1000000000, &c->wdeltat},      {"wlength=", 1000000000, &c->wlength},
      {"wadapter=", 1000000000, &c->wadapter},    {"memlimit=", 1000000000, &c->memlimit}};
  for (size_t i = 0; i < WAFER_COUNT(settings); i++)
    if (take(r, settings[i].name))
      WAFER_TRY(number(r, settings[i].name, settings[i].most, settings[i].to));
  c->width = (uint32_t)width;
  c->height = (uint32_t)height;
  if (take(r, "test=")) {
    const char *from = r->at;
    while (r->at < r->end && !isspace((unsigned char)*r->at)) r->at++;
    if (!(c->test = wafer_arena_strndup(r->arena, from, (size_t)(r->at - from))))
      return no_memory(r);
  }
  return WAFER_OK;
}

/* To behind the comment, or to the end of the line where it goes on. */
static void skip_comment(reader *r, bool *comment) {
  while (r->at < r->end && *comment)
    if (take(r, "*)"))
      *comment = false;
    else if (r->at < r->end)
      r->at++;
}

/* Comments have settings, one at the beginning of a line; a node or an edge may come behind. */
static wafer_status read_line(reader *r, bool *comment) {
  while (*comment || take(r, "(*")) {
    *comment = true;
    WAFER_TRY(read_setting(r));
    skip_comment(r, comment);
    if (*comment) return WAFER_OK;
  }
  blanks(r);
  if (r->at == r->end) return WAFER_OK;
  int word = node_word(r);
  if (word < 0)
    return wafer_fail(r->diag, here(r), WAFER_BAD_INPUT,
                      "a line wants conv, dblock, cblock, input or output first, got '%.*s'",
                      (int)(r->end - r->at > 20 ? 20 : r->end - r->at), r->at);
  for (const char *c = r->at; c + 1 < r->end; c++)
    if (c[0] == '-' && c[1] == '>') {
      line_end from = {.word = word};
      WAFER_TRY(bracket(r, &from.id));
      return read_edge(r, from);
    }
  return read_node(r, word);
}

static wafer_status node_index(reader *r, const line_edge *e, line_end end, uint32_t *out) {
  const wafer_loc loc = wafer_at_line(r->path, e->line, 0);
  uint32_t i = 0;
  while (i < r->nodes && r->ids[i] != end.id) i++;
  if (i == r->nodes)
    return wafer_fail(r->diag, loc, WAFER_BAD_INPUT, "an edge names node %u, which is not there",
                      end.id);
  if (r->word_of[i] != end.word)
    return wafer_fail(r->diag, loc, WAFER_BAD_INPUT, "an edge names %s %u, which is of type %s",
                      words[end.word], end.id, words[r->word_of[i]]);
  *out = r->kernel_of[i];
  return WAFER_OK;
}

static wafer_status link_edges(reader *r) {
  contest *c = r->out;
  if (!(c->edges = WAFER_NEW(r->arena, wafer_placer_edge, r->edges_read))) return no_memory(r);
  for (uint32_t i = 0; i < r->edges_read; i++) {
    uint32_t from = UINT32_MAX, to = UINT32_MAX;
    WAFER_TRY(node_index(r, &r->edges[i], r->edges[i].from, &from));
    WAFER_TRY(node_index(r, &r->edges[i], r->edges[i].to, &to));
    if (from == UINT32_MAX || to == UINT32_MAX) continue; /* input or output */
    if (from == to)
      return wafer_fail(r->diag, wafer_at_line(r->path, r->edges[i].line, 0), WAFER_BAD_INPUT,
                        "node %u feeds itself", r->edges[i].from.id);
    c->edges[c->edge_count++] = (wafer_placer_edge){from, to, 1};
  }
  return WAFER_OK;
}

/* Kernels behind what feeds them, a branch at a time; those of a cycle last, as they come. */
static wafer_status sort(reader *r) {
  contest *c = r->out;
  uint32_t n = c->count, depth = 0, done = 0;
  uint32_t *waits = WAFER_NEW(r->arena, uint32_t, n), *stack = WAFER_NEW(r->arena, uint32_t, n);
  uint32_t *to = WAFER_NEW(r->arena, uint32_t, n);
  contest_kernel *sorted = WAFER_NEW(r->arena, contest_kernel, n);
  if (!waits || !stack || !to || !sorted) return no_memory(r);
  for (uint32_t e = 0; e < c->edge_count; e++) waits[c->edges[e].to]++;
  for (uint32_t i = n; i-- > 0;)
    if (!waits[i]) stack[depth++] = i;
  for (uint32_t i = 0; i < n; i++) to[i] = UINT32_MAX;
  while (depth) {
    uint32_t i = stack[--depth];
    to[i] = done++;
    for (uint32_t e = c->edge_count; e-- > 0;)
      if (c->edges[e].from == i && !--waits[c->edges[e].to]) stack[depth++] = c->edges[e].to;
  }
  for (uint32_t i = 0; i < n; i++) {
    if (to[i] == UINT32_MAX) to[i] = done++;
    sorted[to[i]] = c->kernels[i];
  }
  for (uint32_t e = 0; e < c->edge_count; e++)
    c->edges[e] = (wafer_placer_edge){to[c->edges[e].from], to[c->edges[e].to], 1};
  free(c->kernels);
  c->kernels = sorted;
  return WAFER_OK;
}

static wafer_status read_all(reader *r, wafer_bytes bytes) {
  bool comment = false;
  const char *at = bytes.data, *end = at + bytes.size;
  while (at < end) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    r->at = at;
    r->end = stop ? stop : end;
    r->line++;
    WAFER_TRY(read_line(r, &comment));
    at = stop ? stop + 1 : end;
  }
  r->line = 0;
  const contest *c = r->out;
  if (!c->count || !c->width || !c->height || !c->memlimit)
    return wafer_fail(r->diag, wafer_at_file(r->path), WAFER_BAD_INPUT,
                      "%s; a kernel graph has a comment with width, height, wdeltat, wlength, "
                      "wadapter and memlimit, then its kernels and edges",
                      c->count ? "width, height or memlimit is missing or 0" : "no kernel in it");
  return link_edges(r);
}

wafer_status contest_read(const wafer_diag *diag, wafer_arena *arena, const char *path,
                          contest *out) {
  *out = (contest){.path = path, .test = "?"};
  reader r = {.diag = diag, .arena = arena, .path = path, .out = out};
  wafer_bytes bytes;
  WAFER_TRY(wafer_file_map(diag, arena, path, &bytes));
  wafer_status status = read_all(&r, bytes);
  if (status == WAFER_OK) status = sort(&r);
  if (status != WAFER_OK) free(out->kernels);
  free(r.ids);
  free(r.word_of);
  free(r.kernel_of);
  free(r.edges);
  return status;
}
