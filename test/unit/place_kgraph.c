/* tools/place/place_kgraph.c: the contest's kernel graphs, well-formed and not. */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "caught.h"
#include "tools/place/place.h"

#define HEAD "(*\ntest=t\nwidth=30\nheight=20\nwdeltat=1\nwlength=2\nwadapter=3\nmemlimit=99\n*)\n"

static wafer_status read_text(const char *text, wafer_arena *arena, contest *out, caught *last) {
  char path[] = "/tmp/wafer-kgraph-XXXXXX";
  int file = mkstemp(path);
  CU_ASSERT_FATAL(file >= 0);
  CU_ASSERT_EQUAL(write(file, text, strlen(text)), (ssize_t)strlen(text));
  close(file);
  wafer_diag diag = caught_diag(last);
  wafer_status status = contest_read(&diag, arena, path, out);
  unlink(path);
  return status;
}

/* Blanks in brackets, tabs round the arrow, small letters, no newline at the end, file order not
 * the pipeline's. */
static void reads(void) {
  wafer_arena *arena = wafer_arena_create();
  contest c;
  caught last;
  const char *text = HEAD "\n(* Nodes *)\ninput[ 0] n=[ 4 4 8 ] name='k0'\n"
                          "dblock[ 2] f=8 h=4 w=5 name='b'\n"
                          "conv[1] W=4 H=6 R=3 S=2 C=8 K=16 T=2 U=2 name='a'\noutput[ 3] n=[1]\n"
                          "input[0]:_ -> conv[ 1]:x\nconv[ 1]:y\t->\tdblock[2]:x, shape:[4][4][8]\n"
                          "dblock[ 2]:y -> output[3]:_";
  CU_ASSERT_EQUAL_FATAL(read_text(text, arena, &c, &last), WAFER_OK);
  CU_ASSERT_EQUAL(c.width, 30);
  CU_ASSERT_EQUAL(c.height, 20);
  CU_ASSERT(c.wdeltat == 1 && c.wlength == 2 && c.wadapter == 3 && c.memlimit == 99);
  CU_ASSERT_STRING_EQUAL(c.test, "t");
  CU_ASSERT_EQUAL_FATAL(c.count, 2);
  const contest_kernel *a = &c.kernels[0], *b = &c.kernels[1];
  CU_ASSERT_STRING_EQUAL(a->name, "a");
  CU_ASSERT(a->type == KERNEL_CONV && a->W == 4 && a->H == 6 && a->R == 3 && a->S == 2);
  CU_ASSERT(a->C == 8 && a->K == 16 && a->T == 2 && a->U == 2);
  CU_ASSERT(b->type == KERNEL_DBLOCK && b->F == 8 && b->H == 4 && b->W == 5);
  CU_ASSERT_EQUAL_FATAL(c.edge_count, 1);
  CU_ASSERT(c.edges[0].from == 0 && c.edges[0].to == 1);
  wafer_arena_destroy(arena);
}

static void refuses(void) {
  static const struct {
    const char *text, *says;
  } bad[] = {
      {"", "no kernel"},
      {HEAD, "no kernel"},
      {"conv[1] W=4 H=4 R=1 S=1 C=1 K=1 T=1 U=1\n", "width, height or memlimit"},
      {HEAD "blob[1] W=4\n", "wants conv, dblock, cblock"},
      {HEAD "conv[1 W=4\n", "']' is missing"},
      {HEAD "conv[] W=4\n", "whole number"},
      {HEAD "conv[1] W=4 H=4 name='a'\n", "lacks an argument"},
      {HEAD "conv[1] W=0 H=4 R=1 S=1 C=1 K=1 T=1\n", "lacks an argument"},
      {HEAD "conv[1] W=-4\n", "whole number"},
      {HEAD "conv[1] W=99999999999999999999\n", "more than 65535"},
      {HEAD "conv[1] W:4\n", "wants H= W="},
      {HEAD "dblock[1] f=6 h=4 w=4\n", "multiple of 4"},
      {HEAD "cblock[1] f=8 h=1 w=4\n", "at least 2 x 2"},
      {HEAD "dblock[1] f=8 h=4 w=4 name='a b'\n", "letters, digits"},
      {HEAD "dblock[1] f=8 h=4 w=4 name='a\n", "quotes"},
      {HEAD "dblock[1] f=8 h=4 w=4\ndblock[1] f=8 h=4 w=4\n", "there twice"},
      {HEAD "dblock[1] f=8 h=4 w=4 name='a'\ndblock[2] f=8 h=4 w=4 name='a'\n", "two kernels"},
      {HEAD "dblock[1] f=8 h=4 w=4\ndblock[1]:y -> dblock[2]:x\n", "node 2, which is not there"},
      {HEAD "dblock[1] f=8 h=4 w=4\ndblock[1]:y -> dblock[1]:x\n", "feeds itself"},
      {HEAD "dblock[1] f=8 h=4 w=4\ndblock[1]:y -> \n", "an edge wants"},
      {"(*\nwidth=5000\n*)\n", "more than 4096"},
      {"(*\nwidth=x\n*)\n", "whole number"},
  };
  for (size_t i = 0; i < WAFER_COUNT(bad); i++) {
    wafer_arena *arena = wafer_arena_create();
    contest c;
    caught last;
    CU_ASSERT_EQUAL(read_text(bad[i].text, arena, &c, &last), WAFER_BAD_INPUT);
    CU_ASSERT_EQUAL(last.count, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(last.text, bad[i].says));
    wafer_arena_destroy(arena);
  }
}

/* Every prefix of a good file is read or refused, once. */
static void prefixes(void) {
  const char *text = HEAD "conv[1] W=4 H=4 R=1 S=1 C=1 K=1 T=1 U=1 name='a'\n"
                          "dblock[ 2] f=8 h=4 w=4 name='b'\nconv[1]:y -> dblock[2]:x\n";
  for (size_t n = 0; n <= strlen(text); n++) {
    char part[512];
    snprintf(part, sizeof part, "%.*s", (int)n, text);
    wafer_arena *arena = wafer_arena_create();
    contest c;
    caught last;
    wafer_status status = read_text(part, arena, &c, &last);
    CU_ASSERT_EQUAL(last.count, status != WAFER_OK);
    wafer_arena_destroy(arena);
  }
}

CU_TestInfo tests_place_kgraph[] = {{"a graph is read", reads},
                                    {"what is wrong is refused", refuses},
                                    {"files cut short", prefixes},
                                    CU_TEST_INFO_NULL};
