/* -p params.yaml: settings as options. A file has sections `model`, `data`, `optimizer` and `run`,
 * whose keys are options without dashes; a value is a scalar, true or false for options without
 * one, or a list: of several values where an option is repeated, of one with commas elsewhere.
 *
 *     model:     {file: net.onnx, loss: cross-entropy}   or a model to be made first:
 *     model:     {zoo: mlp, widths: [64, 128, 10], init: 1, file: net.onnx, loss: cross-entropy}
 *     data:      {train: "x.npy,y.npy", eval: "vx.npy,vy.npy"}
 *     optimizer: {name: adam, lr: 1e-3}
 *     run:       {steps: 1000, batch: 64, checkpoint: run}
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

#include "train.h"
#include "wafer/file.h"

typedef struct settings {
  const char *file;
  wafer_arena *arena;
  yaml_document_t *document;
  char **words, **zoo; /* of `train` and of `zoo` */
  int count, zoo_count, room;
  const char *model;
  char **given; /* the command line, whose options win */
} settings;

static wafer_status wrong(const settings *s, const yaml_node_t *at, const char *text,
                          const char *name) {
  return wafer_fail(cli_diag(),
                    wafer_at_line(s->file, (uint32_t)at->start_mark.line + 1,
                                  (uint32_t)at->start_mark.column + 1),
                    WAFER_BAD_INPUT, text, name);
}

static const char *scalar(const yaml_node_t *node) {
  return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

static wafer_status put(settings *s, bool zoo, const char *word) {
  int *count = zoo ? &s->zoo_count : &s->count;
  char *copy = wafer_arena_strdup(s->arena, word);
  if (!copy || *count + 1 >= s->room) return cli_no_memory();
  (zoo ? s->zoo : s->words)[(*count)++] = copy;
  return WAFER_OK;
}

static wafer_status put_option(settings *s, bool zoo, const char *name, const char *value) {
  char *option = wafer_arena_printf(s->arena, "--%s", name);
  if (!option) return cli_no_memory();
  WAFER_TRY(put(s, zoo, option));
  return value ? put(s, zoo, value) : WAFER_OK;
}

/* A key of a section as an option of `train`: most are the option's name. */
static const char *option_of(const char *section, const char *key) {
  static const char *const names[][3] = {{"model", "file", "model"},
                                         {"data", "train", "data"},
                                         {"data", "eval", "eval-data"},
                                         {"optimizer", "name", "optimizer"},
                                         {"optimizer", "schedule", "lr-schedule"}};
  for (size_t i = 0; i < WAFER_COUNT(names); i++)
    if (!strcmp(section, names[i][0]) && !strcmp(key, names[i][1])) return names[i][2];
  return key;
}

/* What a scalar is, or a list of scalars: one word, with commas. NULL: neither. */
static const char *joined(const settings *s, const yaml_node_t *at) {
  if (at->type != YAML_SEQUENCE_NODE) return scalar(at);
  const char *all = NULL;
  for (yaml_node_item_t *i = at->data.sequence.items.start; i < at->data.sequence.items.top; i++) {
    const char *one = scalar(yaml_document_get_node(s->document, *i));
    if (!one) return NULL;
    all = all ? wafer_arena_printf(s->arena, "%s,%s", all, one) : one;
    if (!all) return NULL;
  }
  return all;
}

static bool repeats(const char *option) {
  static const char *const lists[] = {"freeze", "mask", "dim", "shape"};
  for (size_t i = 0; i < WAFER_COUNT(lists); i++)
    if (!strcmp(option, lists[i])) return true;
  return false;
}

/* Of --steps and --epochs the command line's counts alone: both say how long the run is. */
static bool overruled(const settings *s, const char *name) {
  bool steps = !strcmp(name, "steps"), epochs = !strcmp(name, "epochs");
  const char *other = steps ? "--epochs" : "--steps";
  for (char **word = s->given + 1; (steps || epochs) && *word; word++) {
    size_t length = strcspn(*word, "=");
    if (length >= 4 && !strncmp(*word, other, length)) return true;
  }
  return false;
}

static wafer_status put_value(settings *s, const yaml_node_t *at, const char *key, const char *name,
                              bool has_value) {
  const char *value = joined(s, at);
  if (!value) return wrong(s, at, "'%s' wants a scalar", key);
  if (overruled(s, name)) return WAFER_OK;
  if (has_value) return put_option(s, false, name, value);
  if (!strcmp(value, "true")) return put_option(s, false, name, NULL);
  return !strcmp(value, "false") ? WAFER_OK : wrong(s, at, "'%s' wants true or false", key);
}

/* Keys of `model` that `train` does not have describe a model of the zoo. */
static wafer_status put_pair(settings *s, const char *section, bool zoo, const yaml_node_t *key_at,
                             const yaml_node_t *at) {
  const char *key = scalar(key_at), *value = joined(s, at);
  bool has_value;
  if (!key) return wrong(s, key_at, "a key of '%s' is no scalar", section);
  const char *name = option_of(section, key);
  if (!strcmp(name, "model") && !(s->model = wafer_arena_strdup(s->arena, value)))
    return wrong(s, at, "'%s' wants a scalar", key);
  if (train_option(name, &has_value)) {
    if (at->type != YAML_SEQUENCE_NODE || !repeats(name))
      return put_value(s, at, key, name, has_value);
    for (yaml_node_item_t *i = at->data.sequence.items.start; i < at->data.sequence.items.top; i++)
      WAFER_TRY(put_value(s, yaml_document_get_node(s->document, *i), key, name, has_value));
    return WAFER_OK;
  }
  if (!zoo || !value) return wrong(s, key_at, "there is no option '%s'", key);
  if (!strcmp(key, "zoo")) return WAFER_OK; /* its name is in front */
  if (!strcmp(value, "false")) return WAFER_OK;
  return put_option(s, true, key, strcmp(value, "true") ? value : NULL);
}

static const char *zoo_name(const settings *s, const yaml_node_t *section) {
  for (yaml_node_pair_t *p = section->data.mapping.pairs.start; p < section->data.mapping.pairs.top;
       p++) {
    const char *key = scalar(yaml_document_get_node(s->document, p->key));
    if (key && !strcmp(key, "zoo")) return scalar(yaml_document_get_node(s->document, p->value));
  }
  return NULL;
}

/* YAML leaves it open which value of a key that is given twice counts. */
static wafer_status refuse_twice(const settings *s, const yaml_node_t *mapping) {
  const yaml_node_pair_t *first = mapping->data.mapping.pairs.start;
  for (const yaml_node_pair_t *p = first; p < mapping->data.mapping.pairs.top; p++)
    for (const yaml_node_pair_t *before = first; before < p; before++) {
      const yaml_node_t *at = yaml_document_get_node(s->document, p->key);
      const char *key = scalar(at),
                 *other = scalar(yaml_document_get_node(s->document, before->key));
      if (key && other && !strcmp(key, other)) return wrong(s, at, "'%s' is given twice", key);
    }
  return WAFER_OK;
}

static wafer_status put_section(settings *s, const yaml_node_t *name_at, const yaml_node_t *at) {
  static const char *const sections[] = {"model", "data", "optimizer", "run"};
  const char *name = scalar(name_at), *zoo = NULL;
  size_t which = 0;
  while (name && which < WAFER_COUNT(sections) && strcmp(sections[which], name)) which++;
  if (!name || which == WAFER_COUNT(sections))
    return wrong(s, name_at, "'%s' is no section; model, data, optimizer and run are",
                 name ? name : "");
  if (at->type != YAML_MAPPING_NODE) return wrong(s, at, "'%s' wants keys and values", name);
  WAFER_TRY(refuse_twice(s, at));
  if (which == 0 && (zoo = zoo_name(s, at))) {
    WAFER_TRY(put(s, true, "zoo"));
    WAFER_TRY(put(s, true, zoo));
  }
  for (yaml_node_pair_t *p = at->data.mapping.pairs.start; p < at->data.mapping.pairs.top; p++)
    WAFER_TRY(put_pair(s, name, zoo != NULL, yaml_document_get_node(s->document, p->key),
                       yaml_document_get_node(s->document, p->value)));
  return WAFER_OK;
}

static wafer_status put_document(settings *s) {
  const yaml_node_t *root = yaml_document_get_root_node(s->document);
  if (!root || root->type != YAML_MAPPING_NODE)
    return wafer_fail(cli_diag(), wafer_at_file(s->file), WAFER_BAD_INPUT,
                      "holds no sections; model, data, optimizer and run are");
  WAFER_TRY(refuse_twice(s, root));
  for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top; p++)
    WAFER_TRY(put_section(s, yaml_document_get_node(s->document, p->key),
                          yaml_document_get_node(s->document, p->value)));
  return WAFER_OK;
}

static wafer_status read_file(settings *s, wafer_bytes text) {
  yaml_parser_t parser;
  yaml_document_t document;
  if (!yaml_parser_initialize(&parser)) return cli_no_memory();
  yaml_parser_set_input_string(&parser, text.data, text.size);
  wafer_status status = WAFER_OK;
  if (!yaml_parser_load(&parser, &document)) {
    status = wafer_fail(cli_diag(),
                        wafer_at_line(s->file, (uint32_t)parser.problem_mark.line + 1,
                                      (uint32_t)parser.problem_mark.column + 1),
                        WAFER_BAD_INPUT, "is no YAML: %s", parser.problem ? parser.problem : "?");
  } else {
    s->document = &document;
    status = put_document(s);
    yaml_document_delete(&document);
  }
  yaml_parser_delete(&parser);
  return status;
}

/* A model that is described is written once; after that it is the file that counts. */
static wafer_status make_model(settings *s) {
  if (s->zoo_count == 0) return WAFER_OK;
  if (!s->model)
    return wafer_fail(cli_diag(), wafer_at_file(s->file), WAFER_BAD_INPUT,
                      "model wants `file` beside `zoo`: where the model is written");
  if (access(s->model, F_OK) == 0) {
    if (!wafer_ranks_launched()) /* else every rank would say so */
      wafer_note(cli_diag(), wafer_at_file(s->model),
                 "is there and is what is trained, whatever %s says of the zoo", s->file);
    return WAFER_OK;
  }
  WAFER_TRY(put_option(s, true, "output", s->model));
  WAFER_TRY(put_option(s, true, "quiet", NULL));
  return (wafer_status)wafer_tool_zoo(s->zoo_count, s->zoo);
}

/* The value of -p or --params, which is cut out of argv. */
static const char *cut_params(char **argv, int *argc) {
  const char *found = NULL;
  int kept = 1;
  for (int i = 1; i < *argc; i++) {
    bool alone = !strcmp(argv[i], "-p") || !strcmp(argv[i], "--params");
    if (alone && i + 1 < *argc)
      found = argv[++i];
    else if (!strncmp(argv[i], "--params=", 9))
      found = argv[i] + 9;
    else
      argv[kept++] = argv[i];
  }
  argv[kept] = NULL;
  *argc = kept;
  return found;
}

wafer_status train_with_params(int argc, char **argv, wafer_arena *arena, int *out_count,
                               char ***out) {
  wafer_bytes text;
  settings s = {.arena = arena, .given = argv};
  *out = argv;
  s.file = cut_params(argv, &argc);
  *out_count = argc;
  if (!s.file) return WAFER_OK;
  WAFER_TRY(wafer_file_map(cli_diag(), arena, s.file, &text));
  s.room = (int)(text.size < 1 << 20 ? text.size : 1 << 20) + argc + 16;
  s.words = WAFER_NEW(arena, char *, (size_t)s.room);
  s.zoo = WAFER_NEW(arena, char *, (size_t)s.room);
  if (!s.words || !s.zoo) return cli_no_memory();
  s.words[s.count++] = argv[0];
  WAFER_TRY(read_file(&s, text));
  WAFER_TRY(make_model(&s));
  for (int i = 1; i < argc; i++) s.words[s.count++] = argv[i];
  *out_count = s.count;
  *out = s.words;
  return WAFER_OK;
}
